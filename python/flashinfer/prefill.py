# SPDX-License-Identifier: Apache-2.0
"""Attention of several new tokens of each request: the original's module of this name."""
from ._pending import pending
from .attention.batch_prefill import BatchPrefillWithPagedKVCacheWrapper
from .attention.batch_prefill_ragged import BatchPrefillWithRaggedKVCacheWrapper
from .attention.fused_prefill import trtllm_fmha_v2_prefill, trtllm_ragged_attention_deepseek
from .attention.segments import (
    fmha_v2_prefill_deepseek,
    fmha_v2_prefill_sm120,
    fmha_varlen,
    fmha_varlen_plan,
    get_fmha_module,
)
from .attention.serving import trtllm_batch_context_with_kv_cache
from .attention.single import (
    single_prefill_with_kv_cache,
    single_prefill_with_kv_cache_return_lse,
    single_prefill_with_kv_cache_with_jit_module,
)
from .cudnn.prefill import cudnn_batch_prefill_with_kv_cache
from .jit.attention import gen_batch_prefill_module, gen_single_prefill_module

trtllm_sage_attention_quantize = pending("trtllm_sage_attention_quantize")
