# SPDX-License-Identifier: Apache-2.0
"""Kernels for serving large language models; see README.md.

Importing this loads no library and no framework: the first call does.
"""
from . import (
    activation,
    concat_ops,
    jit,
    logits_processor,
    norm,
    page,
    rope,
    sampling,
    tllm_enums,
    topk,
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
from .page import (
    append_paged_kv_cache,
    append_paged_mla_kv_cache,
    get_batch_indices_positions,
    get_seq_lens,
    nvfp4_quantize_append_paged_kv_cache,
    nvfp4_quantize_append_paged_kv_cache_with_slot_mapping,
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
from .tllm_enums import (
    ActivationType,
    RoutingMethodType,
    SfLayout,
    is_gated_activation,
)
from .topk import TopKTieBreak, top_k, top_k_page_table_transform, top_k_ragged_transform
from .utils import next_positive_power_of_2
from .version import __version__

__git_commit__ = __git_version__ = "unknown"
