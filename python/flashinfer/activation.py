# SPDX-License-Identifier: Apache-2.0
"""Gated activations (Shazeer, GLU Variants Improve Transformer, 2020).

``input`` is ``[…, 2 * size]`` of float32, float16 or bfloat16, ``out`` is ``[…, size]`` of its
dtype, or of float8_e4m3fn or float8_e5m2, which hold the result rounded and saturated. All is
computed in float32. ValueError names what is wrong, before anything is written. ``enable_pdl`` is
a hint for GPUs and changes no result.
"""
from __future__ import annotations

from ._binding import lib
from ._tensors import Tensor, empty
from .jit.modules import gen_act_and_mul_module
from .quantization.masked_groups import silu_and_mul_scaled_nvfp4_experts_quantize


def _out_of(input):
    shape = [*input.shape]
    if not shape or shape[-1] % 2 != 0:
        raise ValueError(f"input: shape is {shape}, expected an even last dimension")
    shape[-1] //= 2
    return empty(shape, input)


def silu_and_mul(input: Tensor, out: Tensor | None = None,
                 enable_pdl: bool | None = None) -> Tensor:
    """silu(first half) · second half, with silu(z) = z / (1 + e^-z).

    Returns:
        `out`, made when None.
    """
    if out is None:
        out = _out_of(input)
    lib.silu_and_mul(input, out)
    return out


def gelu_tanh_and_mul(input: Tensor, out: Tensor | None = None,
                      enable_pdl: bool | None = None) -> Tensor:
    """gelu(first half) · second half, with the normal distribution's Φ by its tanh approximation
    (Hendrycks and Gimpel, 2016).

    Returns:
        `out`, made when None.
    """
    if out is None:
        out = _out_of(input)
    lib.gelu_tanh_and_mul(input, out)
    return out


def gelu_and_mul(input: Tensor, out: Tensor | None = None,
                 enable_pdl: bool | None = None) -> Tensor:
    """gelu(first half) · second half, with gelu(z) = z · Φ(z) (Hendrycks and Gimpel, 2016).

    Returns:
        `out`, made when None.
    """
    if out is None:
        out = _out_of(input)
    lib.gelu_and_mul(input, out)
    return out

