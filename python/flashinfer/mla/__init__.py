# SPDX-License-Identifier: Apache-2.0
"""Latent attention: the original's module of this name."""
from ._core import (
    BatchMLAPagedAttentionWrapper,
    DSV4HCAMetadata,
    MLAHeadDimensions,
    MLALayerDimensions,
    convert_compressed_page_aligned_sparse_indices_to_hca_metadata,
    trtllm_batch_decode_sparse_mla_dsv4,
    trtllm_batch_decode_with_kv_cache_mla,
    xqa_batch_decode_with_kv_cache_mla,
)
