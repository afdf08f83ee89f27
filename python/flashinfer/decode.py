# SPDX-License-Identifier: Apache-2.0
"""Attention of the newest token of each request: the original's module of this name."""
from ._pending import pending, pending_class
from .attention.batch_decode import BatchDecodeWithPagedKVCacheWrapper
from .attention.decode_graph import (
    CUDAGraphBatchDecodeWithPagedKVCacheWrapper,
    fast_decode_plan,
)
from .attention.mla import BatchDecodeMlaWithPagedKVCacheWrapper
from .attention.serving import trtllm_batch_decode_with_kv_cache, xqa_batch_decode_with_kv_cache
from .attention.single import (
    single_decode_with_kv_cache,
    single_decode_with_kv_cache_with_jit_module,
)
from .cudnn.decode import cudnn_batch_decode_with_kv_cache
from .jit.attention import gen_batch_decode_module, gen_single_decode_module

TrtllmGenDecodeModule = pending_class("TrtllmGenDecodeModule",
                                      "is the original's own kernel loader and is not here")
