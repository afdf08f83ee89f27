# SPDX-License-Identifier: Apache-2.0
"""The original's module of this name, which its test files reach into."""
from .._pending import pending, pending_class
from ..attention.mla import BatchMLAPagedAttentionWrapper
from ..attention.mla_tables import (
    MLAHeadDimensions,
    MLALayerDimensions,
    trtllm_batch_decode_with_kv_cache_mla,
    xqa_batch_decode_with_kv_cache_mla,
)
from ..utils import get_compute_capability

DSV4HCAMetadata = pending_class("DSV4HCAMetadata")
convert_compressed_page_aligned_sparse_indices_to_hca_metadata = pending(
    "convert_compressed_page_aligned_sparse_indices_to_hca_metadata")
trtllm_batch_decode_sparse_mla_dsv4 = pending("trtllm_batch_decode_sparse_mla_dsv4")
