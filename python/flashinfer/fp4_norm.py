# SPDX-License-Identifier: Apache-2.0
"""RMS norms whose results are pairs of e2m1 with a scale for each block: NVFP4 and MXFP4.

All is computed in float32 and rounded once, to 4 bits. ``enable_pdl`` is a hint for GPUs and changes
no result.
"""
from __future__ import annotations

from typing import Any

from ._binding import lib
from ._tensors import Tensor, as_bytes, as_dtype, dtype_name, empty, framework_of
from .quantization.fp4_quantization import block_format
from .tllm_enums import SfLayout


def _output(name, given, shape, like, dtype):
    """`given`, or a new tensor where it is None."""
    if given is None:
        return empty(shape, like, dtype)
    found = dtype_name(given.dtype)
    if tuple(given.shape) != shape or found not in (dtype, "uint8"):
        raise ValueError(f"{name}: is {found} of shape {list(given.shape)}, expected {dtype} or "
                         f"uint8 {list(shape)}")
    return given


def _scales(name, given, x, layout, block, dtype):
    """As _output(), of the scales of x in a layout."""
    rows = 1
    for size in x.shape[:-1]:
        rows *= size
    shape = (*x.shape[:-1], x.shape[-1] // block)
    if layout != SfLayout.layout_linear:
        shape = (lib.block_scale_bytes(int(layout), rows, shape[-1]),)
    return _output(name, given, shape, x, dtype)


def rmsnorm_fp4quant(input: Tensor, weight: Tensor, y_fp4: Tensor | None = None,
                     block_scale: Tensor | None = None, global_scale: Tensor | None = None,
                     eps: float = 1e-6, block_size: int = 16, scale_format: str | None = None,
                     is_sf_swizzled_layout: bool = False,
                     enable_pdl: bool | None = None) -> tuple[Tensor, Tensor]:
    """rmsnorm(input) / global_scale in 4 bits.

    Args:
        input: ``[num_tokens, hidden_size]`` or ``[batch_size, seq_len, hidden_size]``; float16,
            bfloat16 or float32; hidden_size a multiple of `block_size`.
        weight: ``[hidden_size]``.
        y_fp4: ``[…, hidden_size / 2]``, torch's float4_e2m1fn_x2 or uint8; made when None, of uint8
            where the framework has no pairs.
        block_scale: ``[…, hidden_size / block_size]``, or flat with `is_sf_swizzled_layout`;
            float8_e4m3fn, of MXFP4 uint8; made when None.
        global_scale: ``[1]`` float32: what the norm is divided by; None: 1.
        block_size: 16 for NVFP4, 32 for MXFP4.
        scale_format: ``"e4m3"`` with blocks of 16, ``"ue8m0"`` with those of 32; None: that.
        is_sf_swizzled_layout: scales in tiles of 128 rows and 4 blocks, else row-major.

    Returns:
        (y_fp4, block_scale)
    """
    return _quantized("rmsnorm_fp4quant", as_dtype(input, "float32"), input, weight, y_fp4,
                      (block_scale,), global_scale, eps, block_size, scale_format,
                      (_swizzled(is_sf_swizzled_layout),))


def add_rmsnorm_fp4quant(input: Tensor, residual: Tensor, weight: Tensor,
                         y_fp4: Tensor | None = None, block_scale: Tensor | None = None,
                         global_scale: Tensor | None = None, eps: float = 1e-6,
                         block_size: int = 16, scale_format: str | None = None,
                         is_sf_swizzled_layout: bool = False, output_both_sf_layouts: bool = False,
                         block_scale_unswizzled: Tensor | None = None,
                         enable_pdl: bool | None = None) -> Any:
    """residual += input, then rmsnorm_fp4quant() of the sum before it is rounded to its dtype.

    Arguments are those of rmsnorm_fp4quant(), and:

    Args:
        residual: as `input`, of its dtype; written.
        output_both_sf_layouts: also returns row-major scales; `block_scale` is in tiles.
        block_scale_unswizzled: those, ``[…, hidden_size / block_size]``; made when None.

    Returns:
        (y_fp4, block_scale), with both layouts (y_fp4, block_scale, block_scale_unswizzled)
    """
    if tuple(residual.shape) != tuple(input.shape) or residual.dtype != input.dtype:
        raise ValueError(f"residual: is {dtype_name(residual.dtype)} of shape "
                         f"{list(residual.shape)}, expected {dtype_name(input.dtype)} "
                         f"{list(input.shape)}")
    scales, layouts = (block_scale,), (_swizzled(is_sf_swizzled_layout),)
    if output_both_sf_layouts:
        scales = (block_scale, block_scale_unswizzled)
        layouts = (SfLayout.layout_128x4, SfLayout.layout_linear)
    elif block_scale_unswizzled is not None:
        raise ValueError("block_scale_unswizzled: is of no use without output_both_sf_layouts")
    total = as_dtype(input, "float32") + as_dtype(residual, "float32")
    result = _quantized("add_rmsnorm_fp4quant", total, input, weight, y_fp4, scales, global_scale,
                        eps, block_size, scale_format, layouts)
    residual[...] = as_dtype(total, dtype_name(residual.dtype))
    return result


def _swizzled(is_swizzled):
    return SfLayout.layout_128x4 if is_swizzled else SfLayout.layout_linear


def _quantized(name, x, input, weight, y_fp4, scales, global_scale, eps, block_size, scale_format,
               layouts):
    """(y_fp4, scales of each layout) of the norm of `x`, which is float32."""
    if scale_format not in (None, "e4m3", "ue8m0"):
        raise ValueError(f"scale_format: is {scale_format!r}, accepted: e4m3, ue8m0")
    is_ue8m0 = scale_format == "ue8m0" or scale_format is None and block_size == 32
    kind = block_format(name, block_size, is_ue8m0)
    size = input.shape[-1]
    if size % block_size:
        raise ValueError(f"input: hidden_size is {size}, expected a multiple of {block_size}")
    pairs = "float4_e2m1fn_x2" if hasattr(framework_of(input), "float4_e2m1fn_x2") else "uint8"
    y_fp4 = _output("y_fp4", y_fp4, (*input.shape[:-1], size // 2), input, pairs)
    scales = [_scales("block_scale_unswizzled" if i else "block_scale", given, input, layout,
                      block_size, "uint8" if is_ue8m0 else "float8_e4m3fn")
              for i, (given, layout) in enumerate(zip(scales, layouts))]
    normed = empty((x.reshape((-1, size)).shape[0], size), x)
    lib.rmsnorm(x.reshape((-1, size)), as_dtype(weight, "float32"), normed, eps)
    if global_scale is not None:
        normed /= global_scale
    q = as_bytes(y_fp4).reshape((-1, size // 2))
    for scale, layout in zip(scales, layouts):
        lib.quantize_blocks(normed, q, as_bytes(scale).reshape((-1,)), kind, int(layout), 1.0, None)
    return (y_fp4, *scales)
