# SPDX-License-Identifier: Apache-2.0
"""Kernels for serving large language models; see README.md.

Importing this loads no library and no framework: the first call does.
"""
from . import (
    activation,
    api_logging,
    attention,
    autotuner,
    cascade,
    comm,
    concat_ops,
    cudnn,
    decode,
    deep_gemm,
    fp4_quantization,
    fp8_quantization,
    fused_moe,
    gemm,
    grouped_mm,
    jit,
    logits_processor,
    mamba,
    mhc,
    mla,
    msa_ops,
    norm,
    nvfp4_attention_sm120,
    page,
    parallel_attention,
    pod,
    prefill,
    quantization,
    rope,
    sampling,
    sparse,
    testing,
    tllm_enums,
    topk,
    topk_varlen,
    trace,
    triton,
    utils,
)
from ._errors import (
    BackendSupportedError,
    CompileError,
    DeviceError,
    GPUArchitectureError,
    LibraryError,
    MissingJITCacheError,
)
from .activation import (
    gelu_and_mul,
    gelu_tanh_and_mul,
    silu_and_mul,
    silu_and_mul_scaled_nvfp4_experts_quantize,
)
from .attention import BatchAttention, BatchAttentionWithAttentionSinkWrapper
from .autotuner import autotune
from .cascade import (
    BatchDecodeWithSharedPrefixPagedKVCacheWrapper,
    BatchPrefillWithSharedPrefixPagedKVCacheWrapper,
    MultiLevelCascadeAttentionWrapper,
    merge_state,
    merge_state_in_place,
    merge_states,
)
from .decode import (
    BatchDecodeMlaWithPagedKVCacheWrapper,
    BatchDecodeWithPagedKVCacheWrapper,
    CUDAGraphBatchDecodeWithPagedKVCacheWrapper,
    cudnn_batch_decode_with_kv_cache,
    fast_decode_plan,
    single_decode_with_kv_cache,
)
from .fi_trace import fi_trace
from .fused_moe import (
    B12xMoEWrapper,
    CuteDslMoEWrapper,
    CuteDslMxfp8Mxfp4MoEWrapper,
    b12x_fused_moe,
    cute_dsl_fused_moe_mxfp8_mxfp4,
    cute_dsl_fused_moe_nvfp4,
    cutlass_fused_moe,
    reorder_rows_for_gated_act_gemm,
    trtllm_bf16_moe,
    trtllm_bf16_routed_moe,
    trtllm_fp4_block_scale_moe,
    trtllm_fp4_block_scale_routed_moe,
    trtllm_fp8_block_scale_moe,
    trtllm_fp8_block_scale_routed_moe,
    trtllm_fp8_per_tensor_scale_moe,
    trtllm_fp8_per_tensor_scale_routed_moe,
)
from .gdn_decode import gdn_fused_decode_step, gdn_fused_decode_step_supported
from .gdn_prefill import chunk_gated_delta_rule
from .gemm import (
    SegmentGEMMWrapper,
    bmm_bf16,
    bmm_fp8,
    bmm_mxfp8,
    mm_bf16,
    mm_bf16_fp4,
    mm_fp4,
    mm_fp8,
    mm_mxfp8,
    mm_nvfp4_svdquant,
    nvfp4_quantize_smooth,
    prepare_bf16_fp4_weights,
    svdquant_linear,
    tgv_gemm_sm100,
)
from .grouped_mm import grouped_mm_bf16, grouped_mm_fp4, grouped_mm_fp8, grouped_mm_mxfp8
from .kda import RecurrentKDAPrefillWorkspace, RecurrentKDAPrefillWrapper, recurrent_kda
from .kda_decode import fused_kda_decode, packed_kda_decode
from .mla import BatchMLAPagedAttentionWrapper
from .norm import (
    add_rmsnorm_fp4quant,
    fused_add_rmsnorm,
    fused_add_rmsnorm_quant,
    fused_dit_gate_residual_layernorm_gamma_beta,
    fused_dit_gate_residual_layernorm_scale_shift,
    fused_dit_residual_layernorm_scale_shift,
    fused_qk_rmsnorm_rope,
    fused_rmsnorm_silu,
    gemma_fused_add_rmsnorm,
    gemma_rmsnorm,
    layernorm,
    layernorm_quant,
    rmsnorm,
    rmsnorm_fp4quant,
    rmsnorm_quant,
)
from .nvfp4_attention_sm120 import (
    nvfp4_attention_sm120_fwd,
    nvfp4_attention_sm120_quantize_qkv,
)
from .page import (
    append_paged_kv_cache,
    append_paged_mla_kv_cache,
    get_batch_indices_positions,
    get_seq_lens,
    nvfp4_quantize_append_paged_kv_cache,
    nvfp4_quantize_append_paged_kv_cache_with_slot_mapping,
)
from .pod import BatchPODWithPagedKVCacheWrapper, PODWithPagedKVCacheWrapper
from .prefill import (
    BatchPrefillWithPagedKVCacheWrapper,
    BatchPrefillWithRaggedKVCacheWrapper,
    single_prefill_with_kv_cache,
    single_prefill_with_kv_cache_return_lse,
    trtllm_fmha_v2_prefill,
    trtllm_sage_attention_quantize,
)
from .quantization import (
    block_scale_interleave,
    e2m1_and_ufp8sf_scale_to_float,
    fp4_quantize,
    get_fp4_quantization_module,
    mxfp4_dequantize,
    mxfp4_dequantize_host,
    mxfp4_quantize,
    mxfp8_dequantize_host,
    mxfp8_grouped_quantize,
    mxfp8_quantize,
    nvfp4_batched_quantize,
    nvfp4_block_scale_interleave,
    nvfp4_kv_dequantize,
    nvfp4_kv_dequantize_paged,
    nvfp4_kv_quantize,
    nvfp4_quantize,
    nvfp4_quantize_paged_kv_cache,
    packbits,
    scaled_fp4_grouped_quantize,
    segment_packbits,
    shuffle_matrix_a,
    shuffle_matrix_sf_a,
    silu_and_mul_nvfp4_quantize,
)
from .rope import (
    apply_llama31_rope,
    apply_llama31_rope_inplace,
    apply_llama31_rope_pos_ids,
    apply_llama31_rope_pos_ids_inplace,
    apply_rope,
    apply_rope_inplace,
    apply_rope_pos_ids,
    apply_rope_pos_ids_inplace,
    apply_rope_with_cos_sin_cache,
    apply_rope_with_cos_sin_cache_inplace,
    mla_rope_quantize_fp8,
    rope_quantize_fp8,
    rope_quantize_fp8_append_paged_kv_cache,
)
from .sampling import (
    chain_speculative_sampling,
    min_p_sampling_from_probs,
    sampling_from_logits,
    sampling_from_probs,
    softmax,
    top_k_mask_logits,
    top_k_renorm_probs,
    top_k_sampling_from_probs,
    top_k_top_p_sampling_from_logits,
    top_k_top_p_sampling_from_probs,
    top_p_renorm_probs,
    top_p_sampling_from_probs,
)
from .sparse import BlockSparseAttentionWrapper, VariableBlockSparseAttentionWrapper
from .tllm_enums import (
    ActivationType,
    RoutingMethodType,
    SfLayout,
    is_gated_activation,
)
from .topk import TopKTieBreak, top_k, top_k_page_table_transform, top_k_ragged_transform
from .topk_varlen import top_k_varlen
from .trtllm_low_latency_gemm import prepare_low_latency_gemm_weights
from .utils import next_positive_power_of_2
from .version import __version__
from .xqa import xqa, xqa_mla

__git_commit__ = __git_version__ = "unknown"
