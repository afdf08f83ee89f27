# SPDX-License-Identifier: Apache-2.0
"""Residuals and layer norms of diffusion transformers: (residual_out, norm_out).

``input``, ``residual`` and the results are ``[batch_size, num_rows, hidden_size]`` bfloat16 (or
float16, float32); gates, scales and shifts are of that shape with any strides, their biases
``[hidden_size]`` or ``[1, hidden_size]`` float32. All is computed in float32, the norm from the
residual before it is rounded. ``use_nvfp4``, ``use_mxfp8``, ``global_scaling_factor``,
``input_global_scaling_factor`` and ``sf_out`` are not given; others raise NotImplementedError.
"""
from __future__ import annotations

from ._binding import lib
from ._pending import refuse
from ._tensors import Tensor, as_dtype, dtype_name, empty, empty_like


def _as_float(name, x, input):
    """`x` in float32, once it fits `input`."""
    if x.shape[-1] != input.shape[-1]:
        raise ValueError(f"{name}: shape is {list(x.shape)}, expected hidden_size "
                         f"{input.shape[-1]} last")
    return as_dtype(x, "float32")


def _biased(name, x, bias, input):
    values = _as_float(name, x, input)
    return values if bias is None else values + _as_float(f"{name}_bias", bias, input)


def _filled(out, values, input, name):
    """`values` rounded to the dtype of `input`, in `out` when that is given."""
    if out is None:
        out = empty_like(input)
    elif tuple(out.shape) != tuple(input.shape) or dtype_name(out.dtype) != dtype_name(input.dtype):
        raise ValueError(f"{name}: is {dtype_name(out.dtype)} of shape {list(out.shape)}, expected "
                         f"{dtype_name(input.dtype)} {list(input.shape)}")
    out[...] = as_dtype(values, dtype_name(input.dtype))
    return out


def _summed(input, residual, factor):
    """residual + factor · input in float32."""
    if len(input.shape) != 3:
        raise ValueError(f"input: shape is {list(input.shape)}, expected [batch_size, num_rows, "
                         "hidden_size]")
    if residual is not None and tuple(residual.shape) != tuple(input.shape):
        raise ValueError(f"residual: shape is {list(residual.shape)}, expected "
                         f"{list(input.shape)}")
    total = as_dtype(input, "float32")
    if factor is not None:
        total = total * factor
    return total if residual is None else total + as_dtype(residual, "float32")


def _normed(total, gamma, beta, epsilon):
    out = empty(tuple(total.shape), total)
    lib.layernorm(total, gamma, beta, out, epsilon)
    return out


def _constant(like, value):
    made = empty((like.shape[-1],), like, "float32")
    made[...] = value
    return made


def fused_dit_gate_residual_layernorm_gamma_beta(
        input: Tensor, residual: Tensor, gate: Tensor, gamma: Tensor, beta: Tensor, *,
        gate_bias: Tensor | None = None, epsilon: float = 1e-6, use_nvfp4: bool = False,
        use_mxfp8: bool = False, global_scaling_factor: Tensor | None = None,
        input_global_scaling_factor: Tensor | None = None, residual_out: Tensor | None = None,
        norm_out: Tensor | None = None, sf_out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """residual_out = residual + input · (gate + gate_bias), norm_out = layernorm(residual_out,
    gamma, beta).

    Args:
        gamma, beta: ``[hidden_size]`` float32.
        residual_out, norm_out: as `input`; made when None.
    """
    refuse("fused_dit_gate_residual_layernorm_gamma_beta", use_nvfp4=use_nvfp4,
           use_mxfp8=use_mxfp8, global_scaling_factor=global_scaling_factor,
           input_global_scaling_factor=input_global_scaling_factor, sf_out=sf_out)
    total = _summed(input, residual, _biased("gate", gate, gate_bias, input))
    normed = _normed(total, _as_float("gamma", gamma, input), _as_float("beta", beta, input),
                     epsilon)
    return (_filled(residual_out, total, input, "residual_out"),
            _filled(norm_out, normed, input, "norm_out"))


def _scaled_and_shifted(total, input, scale, shift, scale_bias, shift_bias, epsilon):
    normed = _normed(total, _constant(total, 1), _constant(total, 0), epsilon)
    return (normed * (1 + _biased("scale", scale, scale_bias, input))
            + _biased("shift", shift, shift_bias, input))


def fused_dit_gate_residual_layernorm_scale_shift(
        input: Tensor, residual: Tensor, gate: Tensor, scale: Tensor, shift: Tensor, *,
        gate_bias: Tensor | None = None, scale_bias: Tensor | None = None,
        shift_bias: Tensor | None = None, epsilon: float = 1e-6, use_nvfp4: bool = False,
        use_mxfp8: bool = False, global_scaling_factor: Tensor | None = None,
        input_global_scaling_factor: Tensor | None = None, residual_out: Tensor | None = None,
        norm_out: Tensor | None = None, sf_out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """residual_out = residual + input · (gate + gate_bias), norm_out = layernorm(residual_out) ·
    (1 + scale + scale_bias) + shift + shift_bias.

    Args:
        residual_out, norm_out: as `input`; made when None.
    """
    refuse("fused_dit_gate_residual_layernorm_scale_shift", use_nvfp4=use_nvfp4,
           use_mxfp8=use_mxfp8, global_scaling_factor=global_scaling_factor,
           input_global_scaling_factor=input_global_scaling_factor, sf_out=sf_out)
    total = _summed(input, residual, _biased("gate", gate, gate_bias, input))
    normed = _scaled_and_shifted(total, input, scale, shift, scale_bias, shift_bias, epsilon)
    return (_filled(residual_out, total, input, "residual_out"),
            _filled(norm_out, normed, input, "norm_out"))


def fused_dit_residual_layernorm_scale_shift(
        input: Tensor, scale: Tensor, shift: Tensor, *, residual: Tensor | None = None,
        scale_bias: Tensor | None = None, shift_bias: Tensor | None = None, epsilon: float = 1e-6,
        use_nvfp4: bool = False, use_mxfp8: bool = False,
        global_scaling_factor: Tensor | None = None,
        input_global_scaling_factor: Tensor | None = None, residual_out: Tensor | None = None,
        norm_out: Tensor | None = None, sf_out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """residual_out = residual + input, norm_out = layernorm(residual_out) · (1 + scale +
    scale_bias) + shift + shift_bias.

    Args:
        residual: None: 0.
        residual_out, norm_out: as `input`; made when None.
    """
    refuse("fused_dit_residual_layernorm_scale_shift", use_nvfp4=use_nvfp4, use_mxfp8=use_mxfp8,
           global_scaling_factor=global_scaling_factor,
           input_global_scaling_factor=input_global_scaling_factor, sf_out=sf_out)
    total = _summed(input, residual, None)
    normed = _scaled_and_shifted(total, input, scale, shift, scale_bias, shift_bias, epsilon)
    return (_filled(residual_out, total, input, "residual_out"),
            _filled(norm_out, normed, input, "norm_out"))
