# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""
from __future__ import annotations

from . import gemm_base, routergemm
from .._pending import pending
from ..jit.modules import gen_gemm_module, gen_gemm_sm90_module
from .block_scaled_groups import (
    group_gemm_mxfp4_nt_groupwise,
    group_gemm_mxfp8_mxfp4_nt_groupwise,
    group_gemm_nvfp4_nt_groupwise,
)
from .fp4_weights import (
    mm_bf16_fp4,
    mm_nvfp4_svdquant,
    nvfp4_quantize_smooth,
    prepare_bf16_fp4_weights,
    svdquant_linear,
)
from .gemm_base import (
    CUDNN_AVAILABLE,
    SegmentGEMMWrapper,
    bmm_bf16,
    bmm_fp8,
    bmm_mxfp8,
    mm_bf16,
    mm_fp4,
    mm_fp8,
    mm_mxfp8,
    tgv_gemm_sm100,
)
from .groupwise import (
    batch_deepgemm_fp8_nt_groupwise,
    fp8_blockscale_gemm_sm90,
    gemm_fp8_nt_blockscaled,
    gemm_fp8_nt_groupwise,
    group_deepgemm_fp8_nt_groupwise,
    group_gemm_fp8_nt_groupwise,
)
from .routergemm import (
    mm_M1_16_K6144_N256,
    mm_M1_16_K7168_N128,
    mm_M1_16_K7168_N256,
    tinygemm_bf16,
)

grouped_gemm_nt_masked = pending("grouped_gemm_nt_masked")


def is_cuda_tile_available() -> bool:
    """False: kernels of cuda.tile are not a part of this library."""
    return False
