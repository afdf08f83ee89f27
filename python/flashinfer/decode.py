# SPDX-License-Identifier: Apache-2.0
"""Attention of the newest token of each request: the original's module of this name."""
from .attention.batch_decode import (
    BatchDecodeWithPagedKVCacheWrapper,
    CUDAGraphBatchDecodeWithPagedKVCacheWrapper,
    fast_decode_plan,
)
from .attention.mla import BatchDecodeMlaWithPagedKVCacheWrapper
from .attention.serving import trtllm_batch_decode_with_kv_cache, xqa_batch_decode_with_kv_cache
from .attention.single import single_decode_with_kv_cache
from .cudnn.decode import cudnn_batch_decode_with_kv_cache
