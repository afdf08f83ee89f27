# SPDX-License-Identifier: Apache-2.0
"""Attention of several new tokens of each request: the original's module of this name."""
from .attention.batch_prefill import BatchPrefillWithPagedKVCacheWrapper
from .attention.batch_prefill_ragged import BatchPrefillWithRaggedKVCacheWrapper
from .attention.serving import trtllm_batch_context_with_kv_cache
from .attention.single import (
    single_prefill_with_kv_cache,
    single_prefill_with_kv_cache_return_lse,
)
from .cudnn.prefill import cudnn_batch_prefill_with_kv_cache
