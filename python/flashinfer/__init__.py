# SPDX-License-Identifier: Apache-2.0
"""Kernels for serving large language models; see README.md.

Importing this loads no library and no framework: the first call does.
"""
from . import activation, concat_ops, jit, norm, page, rope, tllm_enums, utils
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
from .tllm_enums import (
    ActivationType,
    RoutingMethodType,
    SfLayout,
    is_gated_activation,
)
from .utils import next_positive_power_of_2
from .version import __version__

__git_commit__ = __git_version__ = "unknown"
