# SPDX-License-Identifier: Apache-2.0
"""Quantisation of the tokens of experts: a matrix for each, of which the first rows are in use.

Results are views with the groups last, as the original's: memory holds a matrix after another. Rows
that are not in use are quantised like the others, so that `mask` is not read.
"""
from __future__ import annotations

from .._binding import lib
from .._tensors import Tensor, dtype_name, empty
from ..tllm_enums import SfLayout
from ..utils import ceil_div, round_up


def _permuted(x, *axes):
    return x.permute(axes) if hasattr(x, "permute") else x.transpose(axes)


def _groups(name, a, mask, multiple):
    """The shape of `a`, once it and `mask` are right."""
    if len(a.shape) != 3 or a.shape[2] % multiple:
        raise ValueError(f"a: shape is {list(a.shape)}, expected [num_groups, num_rows, a multiple "
                         f"of {multiple}]")
    if mask is None or tuple(mask.shape) != (a.shape[0],):
        shape = None if mask is None else list(mask.shape)
        raise ValueError(f"mask: shape is {shape}, expected [{a.shape[0]}]")
    if not dtype_name(mask.dtype).startswith("int"):
        raise ValueError(f"mask: is {dtype_name(mask.dtype)}, expected int32: {name} takes the "
                         "numbers of rows in use")
    return tuple(a.shape)


def _tiles(scales, num_groups, num_blocks, dtype):
    """Scales ``[num_groups, bytes]`` as ``[32, 4, row tiles, 4, block tiles, num_groups]``."""
    tiles = scales.reshape((num_groups, -1, ceil_div(num_blocks, 4), 32, 4, 4))
    if dtype is not None:
        tiles = tiles.view(dtype)
    return _permuted(tiles, 3, 4, 1, 5, 2, 0)


def _quantize(values, kind, block, padded_size, q_dtype, global_scales):
    """(q ``[num_groups, num_rows, …]``, scales ``[num_groups, bytes]``)."""
    num_groups, num_rows, _ = values.shape
    layout = int(SfLayout.layout_128x4)
    q_size = padded_size // 2 if q_dtype == "uint8" else padded_size
    q = empty((num_groups, num_rows, q_size), values, q_dtype)
    num_bytes = lib.block_scale_bytes(layout, num_rows, padded_size // block)
    scales = empty((num_groups, num_bytes), values, "uint8")
    for g in range(num_groups):
        scale = None if global_scales is None else global_scales[g:g + 1]
        lib.quantize_blocks(values[g], q[g], scales[g], kind, layout, 1.0, scale)
    return q, scales


def _nvfp4(values, a_global_sf):
    from .._tensors import dtype_named

    num_groups, _, size = values.shape
    if tuple(a_global_sf.shape) != (num_groups,):
        raise ValueError(f"a_global_sf: shape is {list(a_global_sf.shape)}, expected "
                         f"[{num_groups}]: one for each group")
    q, scales = _quantize(values, "nvfp4", 16, size, "uint8", a_global_sf)
    return _permuted(q, 1, 2, 0), _tiles(scales, num_groups, size // 16,
                                         dtype_named(values, "float8_e4m3fn"))


def scaled_fp4_grouped_quantize(a: Tensor, mask: Tensor,
                                a_global_sf: Tensor) -> tuple[Tensor, Tensor]:
    """NVFP4 of a matrix for each group, for products of masked groups.

    Args:
        a: ``[num_groups, num_rows, hidden_size]``; float16, bfloat16, float32; hidden_size a
            multiple of 16.
        mask: ``[num_groups]`` int32: rows in use of each group.
        a_global_sf: ``[num_groups]`` float32: (448 · 6) / the largest |a| of the group.

    Returns:
        (``[num_rows, hidden_size / 2, num_groups]`` uint8, scales ``[32, 4, num_rows / 128, 4,
        hidden_size / 64, num_groups]`` float8_e4m3fn, sizes rounded up): views of ``[num_groups,
        num_rows, …]`` and of the tiles of SfLayout.layout_128x4
    """
    _groups("scaled_fp4_grouped_quantize", a, mask, 16)
    return _nvfp4(a, a_global_sf)


def silu_and_mul_scaled_nvfp4_experts_quantize(
        a: Tensor, mask: Tensor, a_global_sf: Tensor) -> tuple[Tensor, Tensor]:
    """scaled_fp4_grouped_quantize() of silu_and_mul(a), which is rounded to the dtype of `a`.

    Args:
        a: ``[num_groups, num_rows, 2 · hidden_size]``.
        mask, a_global_sf: as there.
    """
    from ..activation import silu_and_mul

    _groups("silu_and_mul_scaled_nvfp4_experts_quantize", a, mask, 32)
    return _nvfp4(silu_and_mul(a), a_global_sf)


def mxfp8_grouped_quantize(a: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """MXFP8 of a matrix for each group, for products of masked groups.

    Args:
        a: ``[num_groups, num_rows, hidden_size]``; float16, bfloat16, float32; hidden_size a
            multiple of 32.
        mask: ``[num_groups]`` int32: rows in use of each group.

    Returns:
        (``[num_rows, padded_size, num_groups]`` float8_e4m3fn, scales ``[32, 4, num_rows / 128, 4,
        padded_size / 128, num_groups]`` uint8, sizes rounded up): views, as of
        scaled_fp4_grouped_quantize(); padded_size is hidden_size up to a multiple of 128, filled
        with zeros
    """
    num_groups, _, size = _groups("mxfp8_grouped_quantize", a, mask, 32)
    padded_size = round_up(size, 128)
    q, scales = _quantize(a, "mxfp8_e4m3", 32, padded_size, "float8_e4m3fn", None)
    return _permuted(q, 1, 2, 0), _tiles(scales, num_groups, padded_size // 32, None)
