# SPDX-License-Identifier: Apache-2.0
"""Normalisation over the last dimension.

Shapes of all functions: ``input`` is ``[num_tokens, hidden_size]`` or ``[num_tokens, num_heads,
hidden_size]`` of float32, float16 or bfloat16, whose last dimension is dense while others have any
strides; ``weight`` is ``[hidden_size]``, of the dtype of ``input`` or float32. All is computed in
float32. ValueError names what is wrong, before anything is written. ``enable_pdl`` is a hint for
GPUs and changes no result.
"""
from __future__ import annotations

from typing import Any

from ._binding import lib
from ._tensors import Tensor, as_bytes, as_dtype, dtype_name, empty, empty_like, scalar_or_tensor
from .dit_layernorm import (
    fused_dit_gate_residual_layernorm_gamma_beta,
    fused_dit_gate_residual_layernorm_scale_shift,
    fused_dit_residual_layernorm_scale_shift,
)
from .fp4_norm import add_rmsnorm_fp4quant, rmsnorm_fp4quant
from .jit.modules import gen_norm_module
from .qk_rmsnorm_rope import fused_qk_rmsnorm_rope
from .tllm_enums import SfLayout


def rmsnorm(input: Tensor, weight: Tensor, eps: float = 1e-6, out: Tensor | None = None,
            enable_pdl: bool | None = None) -> Tensor:
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


def rmsnorm_quant(out: Tensor, input: Tensor, weight: Tensor, scale: float | Tensor,
                  eps: float = 1e-6, enable_pdl: bool | None = None) -> None:
    """As rmsnorm(), divided by `scale`, rounded to nearest even and saturated.

    Args:
        out: as `input`; float8_e4m3fn or float8_e5m2; written.
        scale: a number, or one float32 on the device of `input`: what a reader multiplies by.
    """
    lib.rmsnorm_quant(out, input, weight, *scalar_or_tensor(scale), eps)


def fused_add_rmsnorm(input: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6,
                      enable_pdl: bool | None = None) -> None:
    """residual += input, then input = rmsnorm(residual), both in place.

    The norm takes the sum before it is rounded to the dtype of `residual`.

    Args:
        residual: as `input`.
    """
    lib.fused_add_rmsnorm(input, residual, weight, eps)


def fused_add_rmsnorm_quant(out: Tensor, input: Tensor, residual: Tensor, weight: Tensor,
                            scale: float | Tensor, eps: float = 1e-6,
                            enable_pdl: bool | None = None) -> None:
    """residual += input in place, then `out` as in rmsnorm_quant(); `input` stays.

    Args:
        out: as `input`; float8_e4m3fn or float8_e5m2; written.
        residual: as `input`.
        scale: a number, or one float32 on the device of `input`.
    """
    lib.fused_add_rmsnorm_quant(out, input, residual, weight, *scalar_or_tensor(scale), eps)


def gemma_rmsnorm(input: Tensor, weight: Tensor, eps: float = 1e-6, out: Tensor | None = None,
                  enable_pdl: bool | None = None) -> Tensor:
    """As rmsnorm() with 1 + weight in place of weight."""
    if out is None:
        out = empty_like(input)
    lib.gemma_rmsnorm(input, weight, out, eps)
    return out


def gemma_fused_add_rmsnorm(input: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6,
                            enable_pdl: bool | None = None) -> None:
    """As fused_add_rmsnorm() with 1 + weight in place of weight."""
    lib.gemma_fused_add_rmsnorm(input, residual, weight, eps)


def layernorm(input: Tensor, gemma: Tensor, beta: Tensor, eps: float = 1e-6) -> Tensor:
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


def layernorm_quant(out: Tensor, input: Tensor, gemma: Tensor, beta: Tensor, scale: float | Tensor,
                    eps: float = 1e-6) -> None:
    """As layernorm(), written to `out` as rmsnorm_quant() does."""
    lib.layernorm_quant(out, input, gemma, beta, *scalar_or_tensor(scale), eps)


def fused_rmsnorm_silu(input: Tensor, weight: Tensor, eps: float = 1e-6, out: Tensor | None = None,
                       block_scale: Tensor | None = None) -> Any:
    """silu(rmsnorm(input)), in float32 between the two, rounded once.

    Args:
        input: ``[num_tokens, hidden_size]`` bfloat16, float16 or float32.
        weight: ``[hidden_size]``.
        out: as `input`, made when None; or float8_e4m3fn (saturated); or torch's float4_e2m1fn_x2
            ``[num_tokens, hidden_size / 2]``: NVFP4 with a global scale of 1.
        block_scale: of NVFP4, ``[num_tokens, hidden_size / 16]`` float8_e4m3fn, row-major; made
            when None.

    Returns:
        `out`, or (out, block_scale) of NVFP4.
    """
    if len(input.shape) != 2:
        raise ValueError(f"input: shape is {list(input.shape)}, expected [num_tokens, hidden_size]")
    rows, size = input.shape
    out = empty_like(input) if out is None else out
    kind = dtype_name(out.dtype)
    is_fp4 = kind == "float4_e2m1fn_x2"
    if is_fp4 and size % 16:
        raise ValueError(f"input: hidden_size is {size}, expected a multiple of 16 for NVFP4")
    if not is_fp4 and kind not in ("float8_e4m3fn", dtype_name(input.dtype)):
        raise ValueError(f"out: is {kind}, accepted: {dtype_name(input.dtype)}, float8_e4m3fn, "
                         "float4_e2m1fn_x2")
    shape = (rows, size // 2 if is_fp4 else size)
    if tuple(out.shape) != shape:
        raise ValueError(f"out: shape is {list(out.shape)}, expected {list(shape)}")
    gated = empty((rows, 2 * size), input, "float32")  # silu_and_mul() of the norm and 1
    gated[:, size:] = 1
    lib.rmsnorm(as_dtype(input, "float32"), as_dtype(weight, "float32"), gated[:, :size], eps)
    if kind in ("float8_e4m3fn", "float32"):
        lib.silu_and_mul(gated, out)
        return out
    total = empty((rows, size), input, "float32")
    lib.silu_and_mul(gated, total)
    if not is_fp4:
        out[...] = as_dtype(total, kind)
        return out
    if block_scale is None:
        block_scale = empty((rows, size // 16), input, "float8_e4m3fn")
    elif (tuple(block_scale.shape), dtype_name(block_scale.dtype)) != ((rows, size // 16),
                                                                       "float8_e4m3fn"):
        raise ValueError(f"block_scale: is {dtype_name(block_scale.dtype)} of shape "
                         f"{list(block_scale.shape)}, expected float8_e4m3fn "
                         f"[{rows}, {size // 16}]")
    lib.quantize_blocks(total, as_bytes(out), as_bytes(block_scale).reshape((-1,)), "nvfp4",
                        int(SfLayout.layout_linear), 1.0, None)
    return out, block_scale
