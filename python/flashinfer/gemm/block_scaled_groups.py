# SPDX-License-Identifier: Apache-2.0
"""Products of groups of rows, and of batches, whose blocks share a narrow scale: MXFP8, MXFP4,
NVFP4. As those of block_scaled.py, a matrix for each group."""
from __future__ import annotations

from typing import Any

from .._binding import lib
from .._tensors import (
    Tensor,
    as_bytes,
    as_dtype,
    dense,
    dtype_name,
    empty,
    on_host,
    scalar_or_tensor,
)
from ..tllm_enums import SfLayout
from ..utils import ceil_div, round_up
from .backends import check_backend

_TILE_ROWS = 128


def _check_bytes(name, x, kind):
    accepted = (("uint8", "float4_e2m1fn_x2") if kind in ("nvfp4", "mxfp4")
                else (kind.replace("mxfp8_", "float8_") + ("fn" if kind.endswith("e4m3") else ""),))
    if dtype_name(x.dtype) not in accepted:
        raise ValueError(f"{name}: is {dtype_name(x.dtype)}, accepted: {', '.join(accepted)}")


def _mxfp8(x):
    return "mxfp8_e5m2" if dtype_name(x.dtype) == "float8_e5m2" else "mxfp8_e4m3"


def _tile_rows(name, shape, bounds, blocks, offsets):
    """Where the tiles of each group begin in scales of `shape`, in rows; None: in the rows' order.

    All rows are one matrix of tiles, or each group has tiles of its own, behind those of the group
    before or at `offsets`: how many scales there are tells."""
    count = 1
    for size in shape:
        count *= size
    columns = round_up(blocks, 4)
    if offsets is None:
        if count == round_up(bounds[-1], _TILE_ROWS) * columns:
            return [0]
        offsets = [0]
        for begin, end in zip(bounds, bounds[1:]):
            offsets.append(offsets[-1] + round_up(end - begin, _TILE_ROWS))
        if count == offsets[-1] * columns:
            return offsets[:-1]
    elif count % columns == 0 and count // columns >= offsets[-1]:
        return offsets[:-1]
    if tuple(shape) == (bounds[-1], blocks):
        return None
    raise ValueError(f"{name}: shape is {list(shape)}, expected the scales of {bounds[-1]} rows of "
                     f"{blocks} blocks, row-major or in tiles of {_TILE_ROWS} rows and 4 blocks")


def _values(name, x, scales, kind, block, bounds, offsets=None):
    """The matrix ``[rows, size]`` of `x`, whose groups are at `bounds`, and its scales in
    bfloat16."""
    _check_bytes(name, x, kind)
    size = x.shape[1] * (2 if kind in ("nvfp4", "mxfp4") else 1)
    if size % block:
        raise ValueError(f"{name}: has rows of {size}, expected a multiple of {block}")
    blocks = ceil_div(size, block)
    values = empty((bounds[-1], size), x, "bfloat16")
    x, scales = dense(x), as_bytes(dense(scales))
    x = as_bytes(x) if kind in ("nvfp4", "mxfp4") else x
    starts = _tile_rows(f"{name}_scale", scales.shape, bounds, blocks, offsets)
    flat = scales.reshape((-1,))
    if starts is None or len(starts) == 1 and offsets is None:
        layout = SfLayout.layout_linear if starts is None else SfLayout.layout_128x4
        lib.dequantize_blocks(x, flat, values, kind, int(layout), 1.0, None)
        return values
    columns = round_up(blocks, 4)
    for begin, end, start in zip(bounds, bounds[1:], starts):
        if begin == end:
            continue
        stop = start + round_up(end - begin, _TILE_ROWS)
        lib.dequantize_blocks(x[begin:end], flat[start * columns:stop * columns],
                              values[begin:end], kind, int(SfLayout.layout_128x4), 1.0, None)
    return values


def _stacked(name, b, scales, kind, block):
    """``[num_groups, n, size]`` of matrices, each with scales of its own."""
    if len(b.shape) != 3:
        raise ValueError(f"{name}: shape is {list(b.shape)}, expected 3 dimensions")
    groups, n = b.shape[:2]
    bounds = [g * n for g in range(groups + 1)]
    if len(scales.shape) == 3:
        scales = scales.reshape((-1, scales.shape[2]))
    values = _values(name, b.reshape((groups * n, b.shape[2])), scales, kind, block, bounds)
    return values.reshape((groups, n, values.shape[1]))


def _bounds(m_indptr, a, b):
    bounds = [int(i) for i in on_host(m_indptr)]
    if len(bounds) != b.shape[0] + 1 or bounds[0] != 0 or bounds[-1] != a.shape[0] or any(
            i > j for i, j in zip(bounds, bounds[1:])):
        raise ValueError(f"m_indptr: is {bounds}, expected {b.shape[0] + 1} numbers from 0 to "
                         f"{a.shape[0]}, not decreasing")
    return bounds


def _grouped(a, b, bounds, alpha, out, out_dtype):
    """a[rows of group g] @ b[g]ᵀ · alpha in float32, rounded once; alpha is None, one number or
    one for each group."""
    import numpy

    shape = (a.shape[0], b.shape[1])
    name = "bfloat16" if out_dtype is None else dtype_name(out_dtype)
    if out is None:
        out = empty(shape, a, name)
    elif tuple(out.shape) != shape or (out_dtype is not None and dtype_name(out.dtype) != name):
        raise ValueError(f"out: is {dtype_name(out.dtype)} of shape {list(out.shape)}, expected "
                         f"{name} {list(shape)}")
    total = empty(shape, a, "float32")
    lib.grouped_gemm(a, b, numpy.array(bounds, numpy.int64), total, None, None, 1, 128, 128)
    if alpha is not None:
        factor, alpha = scalar_or_tensor(alpha)
        if alpha is None:
            total *= factor
        elif len(alpha.shape) == 1 and alpha.shape[0] == len(bounds) - 1 > 1:
            for g, (begin, end) in enumerate(zip(bounds, bounds[1:])):
                total[begin:end] *= alpha[g]
        else:
            total *= alpha
    out[...] = as_dtype(total, dtype_name(out.dtype))
    return out


def _offsets(bounds):
    """Rows of scales where groups begin in the original's padding: group g at the first multiple of
    128 from which on all groups before it have room."""
    return [(m + g * (_TILE_ROWS - 1)) // _TILE_ROWS * _TILE_ROWS for g, m in enumerate(bounds)]


def group_gemm_mxfp8_mxfp4_nt_groupwise(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                                        m_indptr: Tensor, mma_sm: int = 1, tile_m: int = 128,
                                        tile_n: int = 128, tile_k: int = 128, swap_ab: bool = True,
                                        out: Tensor | None = None,
                                        out_dtype: Any = None) -> Tensor:
    """a[rows of group g] @ b[g]ᵀ of MXFP8 and MXFP4.

    Args:
        a: ``[num_rows, k]`` float8_e4m3fn or float8_e5m2; k a multiple of 32.
        b: ``[num_groups, n, k / 2]`` uint8.
        a_scale: ``[rows, k / 32]`` uint8 in tiles of 128 rows and 4 blocks, those of group g from
            row (m_indptr[g] + 127 · g) / 128 · 128 on (rounded down).
        b_scale: ``[num_groups, n, k / 32]`` uint8 in tiles, n a multiple of 128 there.
        m_indptr: ``[num_groups + 1]`` integers: where groups begin.
        mma_sm, tile_m, tile_n, tile_k, swap_ab: accepted; hints for kernels of SM100.
        out: ``[num_rows, n]``; made when None, of `out_dtype` (None: bfloat16).

    Returns:
        `out`.
    """
    bounds = _bounds(m_indptr, a, b)
    left = _values("a", a, a_scale, _mxfp8(a), 32, bounds, _offsets(bounds))
    return _grouped(left, _stacked("b", b, b_scale, "mxfp4", 32), bounds, None, out, out_dtype)


group_gemm_mxfp4_nt_groupwise = group_gemm_mxfp8_mxfp4_nt_groupwise


def group_gemm_nvfp4_nt_groupwise(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                                  m_indptr: Tensor, alpha: Tensor | None = None, tile_m: int = 128,
                                  tile_n: int = 128, tile_k: int = 128, swap_ab: bool = True,
                                  out: Tensor | None = None, out_dtype: Any = None) -> Tensor:
    """alpha[g] · a[rows of group g] @ b[g]ᵀ of NVFP4.

    Args:
        a: ``[num_rows, k / 2]`` uint8; b: ``[num_groups, n, k / 2]`` uint8; k a multiple of 16.
        a_scale, b_scale: as in group_gemm_mxfp8_mxfp4_nt_groupwise(), of blocks of 16.
        m_indptr: ``[num_groups + 1]`` integers: where groups begin.
        alpha: ``[num_groups]`` float32; None: 1.
        tile_m, tile_n, tile_k, swap_ab: accepted; hints for kernels of SM120.
        out: ``[num_rows, n]``; made when None, of `out_dtype` (None: bfloat16).

    Returns:
        `out`.
    """
    bounds = _bounds(m_indptr, a, b)
    left = _values("a", a, a_scale, "nvfp4", 16, bounds, _offsets(bounds))
    return _grouped(left, _stacked("b", b, b_scale, "nvfp4", 16), bounds, alpha, out, out_dtype)


def grouped_mm_mxfp8(a: Tensor, b: Tensor, a_descale: Tensor, b_descale: Tensor, m_indptr: Tensor,
                     out: Tensor | None = None, out_dtype: Any = "bfloat16", *,
                     backend: str = "cudnn", tactic: int = -1) -> Tensor:
    """a[rows of group g] @ b[g]ᵀ of MXFP8.

    Args:
        a: ``[num_rows, k]``; b: ``[num_groups, n, k]``; float8_e4m3fn or float8_e5m2, k a multiple
            of 32.
        a_descale: ``[rows, k / 32]`` uint8, row-major or in tiles: of all rows as one matrix, or of
            each group behind those of the group before.
        b_descale: ``[num_groups, n, k / 32]`` likewise.
        m_indptr: ``[num_groups + 1]`` integers: where groups begin.
        out: ``[num_rows, n]``; made when None.
        out_dtype: bfloat16, float16 or float32; with `out` its dtype.
        backend, tactic: accepted; which kernel runs is the library's choice.

    Returns:
        `out`.
    """
    check_backend(backend)
    bounds = _bounds(m_indptr, a, b)
    return _grouped(_values("a", a, a_descale, _mxfp8(a), 32, bounds),
                    _stacked("b", b, b_descale, _mxfp8(b), 32), bounds, None, out,
                    out_dtype if out is None else None)


def grouped_mm_fp4(a: Tensor, b: Tensor, a_descale: Tensor, b_descale: Tensor, m_indptr: Tensor,
                   alpha: float | Tensor | None = None, out: Tensor | None = None,
                   out_dtype: Any = "bfloat16", block_size: int = 16, *, backend: str = "cudnn",
                   tactic: int = -1) -> Tensor:
    """alpha · a[rows of group g] @ b[g]ᵀ of pairs of e2m1.

    Args:
        a: ``[num_rows, k / 2]`` uint8 or float4_e2m1fn_x2; b: ``[num_groups, n, k / 2]`` likewise.
        a_descale, b_descale: as in grouped_mm_mxfp8(), of blocks of `block_size`.
        alpha: one float32; None: 1.
        block_size: 16: NVFP4; 32: MXFP4.

    The others, and the result, are as of grouped_mm_mxfp8().
    """
    check_backend(backend)
    if block_size not in (16, 32):
        raise ValueError(f"block_size: is {block_size}, accepted: 16, 32")
    kind = "nvfp4" if block_size == 16 else "mxfp4"
    bounds = _bounds(m_indptr, a, b)
    return _grouped(_values("a", a, a_descale, kind, block_size, bounds),
                    _stacked("b", b, b_descale, kind, block_size), bounds, alpha, out,
                    out_dtype if out is None else None)


def bmm_mxfp8(A: Tensor, B: Tensor, A_scale: Tensor, B_scale: Tensor, dtype: Any,
              out: Tensor | None = None, backend: str = "auto") -> Tensor:
    """A @ B of a batch of MXFP8 matrices.

    Args:
        A: ``[batch_size, m, k]`` float8_e4m3fn or float8_e5m2; k a multiple of 32.
        B: ``[batch_size, k, n]`` likewise, column-major: the transposed view of
            ``[batch_size, n, k]``.
        A_scale: uint8 scales in tiles, of all rows as one matrix, as mxfp8_quantize() makes them,
            or of each matrix.
        B_scale: likewise of ``[batch_size, n, k]``.
        dtype: bfloat16, float16 or float32: of the result.
        out: ``[batch_size, m, n]``; made when None.
        backend: accepted; which kernel runs is the library's choice.

    Returns:
        `out`.
    """
    from .gemm_base import matmul

    check_backend(backend)
    for name, x in (("A", A), ("B", B)):
        if len(x.shape) != 3 or x.shape[0] != A.shape[0]:
            raise ValueError(f"{name}: shape is {list(x.shape)}, expected 3 dimensions, "
                             f"{A.shape[0]} matrices")
    left = _stacked("A", A, A_scale, _mxfp8(A), 32)
    right = _stacked("B", B.swapaxes(-1, -2), B_scale, _mxfp8(B), 32)
    return matmul(left, right.swapaxes(-1, -2), out, dtype)
