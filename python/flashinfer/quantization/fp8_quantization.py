# SPDX-License-Identifier: Apache-2.0
"""Quantisation to 8 bits: MXFP8 (OCP Microscaling Formats 1.0, 2023), and scales per group."""
from __future__ import annotations

from typing import Any

from .._binding import lib
from .._tensors import Tensor, dtype_name, empty
from ..tllm_enums import SfLayout
from ..utils import round_up
from .masked_groups import mxfp8_grouped_quantize

_BLOCK = 32


def _layout(is_sf_swizzled_layout, sf_swizzle_layout):
    if sf_swizzle_layout is not None:
        return SfLayout(sf_swizzle_layout)
    return SfLayout.layout_128x4 if is_sf_swizzled_layout else SfLayout.layout_linear


def _num_rows(x):
    rows = 1
    for size in tuple(x.shape)[:-1]:
        rows *= size
    return rows


def mxfp8_quantize(input: Tensor, is_sf_swizzled_layout: bool = True, alignment: int = 32,
                   enable_pdl: bool | None = None, backend: str = "cuda",
                   sf_swizzle_layout: Any = None) -> tuple[Tensor, Tensor]:
    """Quantises blocks of 32 elements of a row that share a power of two.

    Args:
        input: ``[…, hidden_size]``; float32, float16, bfloat16; hidden_size a multiple of 32.
        is_sf_swizzled_layout: scales in tiles of 128 rows and 4 blocks, else row-major.
        alignment: hidden_size is padded to a multiple of it, with zeros; a multiple of 32.
        backend: "cuda" or "auto"; which kernel runs is the library's choice.
        sf_swizzle_layout: SfLayout, in place of `is_sf_swizzled_layout`.

    Returns:
        (``[…, padded_size]`` float8_e4m3fn, uint8 scales in one dimension: exponents of two + 127)
    """
    _check_backend(backend)
    if input.shape[-1] % _BLOCK != 0:
        raise ValueError(f"input: last dimension is {input.shape[-1]}, "
                         f"expected a multiple of {_BLOCK}")
    if alignment <= 0 or alignment % _BLOCK != 0:
        raise ValueError(f"alignment is {alignment}, expected a multiple of {_BLOCK}")
    layout = _layout(is_sf_swizzled_layout, sf_swizzle_layout)
    padded_size = round_up(input.shape[-1], alignment)
    q = empty(tuple(input.shape)[:-1] + (padded_size,), input, "float8_e4m3fn")
    num_bytes = lib.block_scale_bytes(int(layout), _num_rows(input), padded_size // _BLOCK)
    scales = empty((num_bytes,), input, "uint8")
    lib.quantize_blocks(input, q, scales, "mxfp8_e4m3", int(layout), 1.0, None)
    return q, scales


def mxfp8_dequantize_host(input: Tensor, scale_tensor: Tensor, is_sf_swizzled_layout: bool = True,
                          sf_swizzle_layout: Any = None) -> Tensor:
    """The reverse of mxfp8_quantize(), in host memory.

    Args:
        input: ``[…, hidden_size]`` float8_e4m3fn, or its bytes as uint8.
        scale_tensor: uint8, as mxfp8_quantize() returns it.

    Returns:
        ``[…, hidden_size]`` float32.
    """
    layout = _layout(is_sf_swizzled_layout, sf_swizzle_layout)
    out = empty(tuple(input.shape), input, "float32")
    lib.dequantize_blocks(input, scale_tensor.reshape((-1,)), out, "mxfp8_e4m3", int(layout), 1.0,
                          None)
    return out


def per_token_group_quant_8bit(x: Tensor, group_size: int, eps: float = 1e-10,
                               dst_dtype: Any = None, column_major_scales: bool = False,
                               scale_tma_aligned: bool = False, scale_ue8m0: bool = False,
                               backend: str = "cutile") -> tuple[Tensor, Tensor]:
    """Quantises groups of a row that share a float32 scale: the largest |x| of the group divided
    by the largest number of the dtype.

    Args:
        x: ``[…, hidden_size]``; float32, float16, bfloat16.
        group_size: elements that share a scale; divides hidden_size.
        eps: a scale is at least eps / the largest number of the dtype.
        dst_dtype: float8_e4m3fn (also when None), float8_e5m2, int8.
        column_major_scales: scales of a group are next to each other in memory.
        scale_tma_aligned: with it, columns begin at multiples of 16 bytes.
        scale_ue8m0: scales are rounded up to powers of two; they stay float32.
        backend: "cutile", "cuda" or "auto"; which kernel runs is the library's choice.

    Returns:
        (as `x` of `dst_dtype`, ``[…, hidden_size / group_size]`` float32)
    """
    if backend not in ("auto", "cutile", "cuda"):
        raise ValueError(f"backend is {backend!r}, accepted: cutile, cuda, auto")
    if group_size <= 0 or x.shape[-1] % group_size != 0:
        raise ValueError(f"group_size is {group_size}, expected a divisor of {x.shape[-1]}")
    if scale_tma_aligned and not column_major_scales:
        raise ValueError("scale_tma_aligned=True needs column_major_scales=True")
    dtype = "float8_e4m3fn" if dst_dtype is None else dst_dtype
    q = empty(tuple(x.shape), x, dtype)
    lead, num_groups = tuple(x.shape)[:-1], x.shape[-1] // group_size
    if column_major_scales:
        if len(lead) != 1:
            raise ValueError(f"x: shape is {list(x.shape)}, expected two dimensions with "
                             "column_major_scales=True")
        rows = round_up(lead[0], 4) if scale_tma_aligned else lead[0]
        scales = empty((num_groups, rows), x, "float32").T[:lead[0]]
    else:
        scales = empty(lead + (num_groups,), x, "float32")
    largest = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "int8": 127.0}[dtype_name(q.dtype)]
    flat = (_num_rows(x), x.shape[-1])
    lib.quantize(x.reshape(flat), q.reshape(flat), scales.reshape((flat[0], num_groups)), True,
                 eps / largest, scale_ue8m0)
    return q, scales


def _check_backend(backend):
    if backend not in ("cuda", "auto"):
        raise ValueError(f"backend is {backend!r}, accepted: cuda, auto")

