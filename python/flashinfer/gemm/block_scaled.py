# SPDX-License-Identifier: Apache-2.0
"""Products of matrices whose blocks share a narrow scale: MXFP8, MXFP4, NVFP4.

Values times their scales are exact in bfloat16 but at the ends of its range, where they lie for the
time of a product; sums are float32's. ``enable_pdl`` is a hint for GPUs and changes no result.
"""
from __future__ import annotations

from typing import Any

from .._binding import lib
from .._errors import BackendSupportedError
from .._tensors import Tensor, as_bytes, dense, empty, scalar_or_tensor
from ..tllm_enums import SfLayout
from ..utils import ceil_div, round_up


def _check_backend(backend, accepted):
    if backend == "trtllm":
        raise BackendSupportedError("backend: is 'trtllm', whose rows of b are shuffled; accepted: "
                                    + ", ".join(accepted))
    if backend not in accepted:
        raise ValueError(f"backend: is {backend!r}, accepted: {', '.join(accepted)}, trtllm")


def _layout_of(name, scales, rows, blocks, layout):
    """SfLayout of scales, which are `layout`'s or row-major, from how many there are."""
    count = 1
    for size in scales.shape:
        count *= size
    tile = 8 if layout == SfLayout.layout_8x4 else 128
    if count == round_up(rows, tile) * round_up(blocks, 4):
        return layout
    if tuple(scales.shape) == (rows, blocks):
        return SfLayout.layout_linear
    raise ValueError(f"{name}: shape is {list(scales.shape)}, expected the scales of {rows} rows of "
                     f"{blocks} blocks, in tiles of {tile} rows and 4 blocks or row-major")


def scaled_values(name: str, x: Tensor, scales: Tensor, kind: str, block: int,
                  layout: SfLayout) -> Tensor:
    """The matrix ``[rows, size]`` of `x` and its scales, in bfloat16."""
    size = x.shape[1] * (2 if kind in ("nvfp4", "mxfp4") else 1)
    layout = _layout_of(name, scales, x.shape[0], ceil_div(size, block), layout)
    values = empty((x.shape[0], size), x, "bfloat16")
    lib.dequantize_blocks(dense(x), as_bytes(dense(scales)).reshape((-1,)), values, kind,
                          int(layout), 1.0, None)
    return values


def _product(a, b, out, out_dtype, alpha=None):
    from .gemm_base import matmul

    factor, alpha = scalar_or_tensor(alpha)
    return matmul(a, b.T, out, out_dtype, None, factor, alpha, None)


def _check_inner(a, b):
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"b: shape is {list(b.shape)}, expected a matrix that fits a, "
                         f"{list(a.shape)}")


def mm_mxfp8(a: Tensor, b: Tensor, a_descale: Tensor, b_descale: Tensor, out: Tensor | None = None,
             out_dtype: Any = "bfloat16", use_8x4_sf_layout: bool = False,
             backend: str = "auto") -> Tensor:
    """a @ b of MXFP8.

    Args:
        a: ``[m, k]`` float8_e4m3fn; k a multiple of 32.
        b: ``[k, n]`` float8_e4m3fn, column-major: the transposed view of ``[n, k]``.
        a_descale: uint8 scales as mxfp8_quantize() makes them, in tiles or row-major ``[m, k / 32]``.
        b_descale: likewise of ``[n, k]``; row-major ones transposed, as b.
        out: ``[m, n]``; made when None.
        out_dtype: bfloat16, float16 or float32.
        use_8x4_sf_layout: tiles of a_descale have 8 rows.

    Returns:
        `out`.
    """
    _check_backend(backend, ("auto", "cutlass", "cute-dsl", "cudnn"))
    _check_inner(a, b)
    layout = SfLayout.layout_8x4 if use_8x4_sf_layout else SfLayout.layout_128x4
    left = scaled_values("a_descale", a, a_descale, "mxfp8_e4m3", 32, layout)
    b_descale = b_descale if len(b_descale.shape) == 1 else b_descale.T
    right = scaled_values("b_descale", b.T, b_descale, "mxfp8_e4m3", 32, SfLayout.layout_128x4)
    return _product(left, right, out, out_dtype)


def mm_fp4(a: Tensor, b: Tensor, a_descale: Tensor, b_descale: Tensor,
           alpha: float | Tensor | None = None, out_dtype: Any = "bfloat16",
           out: Tensor | None = None, block_size: int = 16, use_8x4_sf_layout: bool = False,
           backend: str = "auto", use_nvfp4: bool = True,
           enable_pdl: bool | None = True) -> Tensor:
    """alpha · a @ b of pairs of e2m1.

    Args:
        a: ``[m, k / 2]`` uint8, as fp4_quantize() makes them.
        b: ``[k / 2, n]`` uint8, column-major: the transposed view of ``[n, k / 2]``.
        a_descale: scales as fp4_quantize() makes them, in tiles or row-major ``[m, k / block_size]``.
        b_descale: likewise of b, transposed as it is.
        alpha: one float32 that multiplies: 1 / (the global scale of a · that of b); None: 1.
        out_dtype: bfloat16, float16 or float32.
        out: ``[m, n]``; made when None.
        block_size: 16, or 32 with `use_nvfp4` False: MXFP4.
        use_8x4_sf_layout: tiles of a_descale have 8 rows.
        backend: which kernel runs is the library's choice; "trtllm", whose rows of b are shuffled,
            raises NotImplementedError.

    Returns:
        `out`.
    """
    _check_backend(backend, ("auto", "cudnn", "cutlass", "cute-dsl"))
    if block_size != (16 if use_nvfp4 else 32):
        raise ValueError(f"block_size: is {block_size}, expected {16 if use_nvfp4 else 32} with "
                         f"use_nvfp4={use_nvfp4}")
    _check_inner(a, b)
    kind = "nvfp4" if use_nvfp4 else "mxfp4"
    layout = SfLayout.layout_8x4 if use_8x4_sf_layout else SfLayout.layout_128x4
    left = scaled_values("a_descale", a, a_descale, kind, block_size, layout)
    right = scaled_values("b_descale", b.T,
                          b_descale if len(b_descale.shape) == 1 else b_descale.T, kind,
                          block_size, SfLayout.layout_128x4)
    return _product(left, right, out, out_dtype, alpha)
