# SPDX-License-Identifier: Apache-2.0
"""Norms of diffusion models, under another of their module names."""
from .norm import (
    fused_dit_gate_residual_layernorm_gamma_beta,
    fused_dit_gate_residual_layernorm_scale_shift,
    fused_dit_residual_layernorm_scale_shift,
    fused_qk_rmsnorm_rope,
)
