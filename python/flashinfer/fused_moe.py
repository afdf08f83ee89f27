# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    cutlass_fused_moe trtllm_bf16_moe trtllm_bf16_routed_moe
    trtllm_fp4_block_scale_moe trtllm_fp4_block_scale_routed_moe trtllm_fp8_block_scale_moe
    trtllm_fp8_block_scale_routed_moe trtllm_fp8_per_tensor_scale_moe
    trtllm_fp8_per_tensor_scale_routed_moe cute_dsl_fused_moe_nvfp4
    cute_dsl_fused_moe_mxfp8_mxfp4 b12x_fused_moe fused_topk_deepseek
""", classes="""
    CuteDslMoEWrapper CuteDslMxfp8Mxfp4MoEWrapper B12xMoEWrapper
""")

from .row_shuffle import (
    get_reorder_rows_for_gated_act_gemm_row_indices,
    reorder_rows_for_gated_act_gemm,
)
from .tllm_enums import (
    ActivationType,
    Fp8QuantizationType,
    GatedActType,
    RoutingMethodType,
    WeightLayout,
)
