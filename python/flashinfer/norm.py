# SPDX-License-Identifier: Apache-2.0
"""Normalisation over the last dimension.

Shapes of all functions: ``input`` is ``[num_tokens, hidden_size]`` or ``[num_tokens, num_heads,
hidden_size]`` of float32, float16 or bfloat16, whose last dimension is dense while others have any
strides; ``weight`` is ``[hidden_size]``, of the dtype of ``input`` or float32. All is computed in
float32. ValueError names what is wrong, before anything is written. ``enable_pdl`` is a hint for
GPUs and changes no result.
"""
from ._binding import lib
from ._pending import pending
from ._tensors import empty_like, scalar_or_tensor
from .jit.modules import gen_norm_module


def rmsnorm(input, weight, eps=1e-6, out=None, enable_pdl=None):
    """Root mean square norm (Zhang and Sennrich, 2019): x / sqrt(mean(x²) + eps) · weight.

    Args:
        input: ``[num_tokens, hidden_size]`` or ``[num_tokens, num_heads, hidden_size]``.
        weight: ``[hidden_size]``.
        eps: added to the mean square.
        out: as `input`; made when None. May be `input` itself.

    Returns:
        `out`.
    """
    if out is None:
        out = empty_like(input)
    lib.rmsnorm(input, weight, out, eps)
    return out


def rmsnorm_quant(out, input, weight, scale, eps=1e-6, enable_pdl=None):
    """As rmsnorm(), divided by `scale`, rounded to nearest even and saturated.

    Args:
        out: as `input`; float8_e4m3fn or float8_e5m2; written.
        scale: a number, or one float32 on the device of `input`: what a reader multiplies by.
    """
    lib.rmsnorm_quant(out, input, weight, *scalar_or_tensor(scale), eps)


def fused_add_rmsnorm(input, residual, weight, eps=1e-6, enable_pdl=None):
    """residual += input, then input = rmsnorm(residual), both in place.

    The norm takes the sum before it is rounded to the dtype of `residual`.

    Args:
        residual: as `input`.
    """
    lib.fused_add_rmsnorm(input, residual, weight, eps)


def fused_add_rmsnorm_quant(out, input, residual, weight, scale, eps=1e-6, enable_pdl=None):
    """residual += input in place, then `out` as in rmsnorm_quant(); `input` stays.

    Args:
        out: as `input`; float8_e4m3fn or float8_e5m2; written.
        residual: as `input`.
        scale: a number, or one float32 on the device of `input`.
    """
    lib.fused_add_rmsnorm_quant(out, input, residual, weight, *scalar_or_tensor(scale), eps)


def gemma_rmsnorm(input, weight, eps=1e-6, out=None, enable_pdl=None):
    """As rmsnorm() with 1 + weight in place of weight."""
    if out is None:
        out = empty_like(input)
    lib.gemma_rmsnorm(input, weight, out, eps)
    return out


def gemma_fused_add_rmsnorm(input, residual, weight, eps=1e-6, enable_pdl=None):
    """As fused_add_rmsnorm() with 1 + weight in place of weight."""
    lib.gemma_fused_add_rmsnorm(input, residual, weight, eps)


def layernorm(input, gemma, beta, eps=1e-6):
    """Layer norm (Ba et al., 2016): (x - mean(x)) / sqrt(var(x) + eps) · gemma + beta.

    Args:
        gemma: ``[hidden_size]``, float32 or the dtype of `input`.
        beta: as `gemma`, of its dtype.

    Returns:
        A tensor as `input`.
    """
    out = empty_like(input)
    lib.layernorm(input, gemma, beta, out, eps)
    return out


def layernorm_quant(out, input, gemma, beta, scale, eps=1e-6):
    """As layernorm(), written to `out` as rmsnorm_quant() does."""
    lib.layernorm_quant(out, input, gemma, beta, *scalar_or_tensor(scale), eps)


fused_rmsnorm_silu = pending("fused_rmsnorm_silu")
fused_qk_rmsnorm_rope = pending("fused_qk_rmsnorm_rope")
fused_dit_residual_layernorm_scale_shift = pending("fused_dit_residual_layernorm_scale_shift")
fused_dit_gate_residual_layernorm_scale_shift = pending(
    "fused_dit_gate_residual_layernorm_scale_shift")
fused_dit_gate_residual_layernorm_gamma_beta = pending(
    "fused_dit_gate_residual_layernorm_gamma_beta")
rmsnorm_fp4quant = pending("rmsnorm_fp4quant")
add_rmsnorm_fp4quant = pending("add_rmsnorm_fp4quant")
