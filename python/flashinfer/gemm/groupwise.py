# SPDX-License-Identifier: Apache-2.0
"""Products of fp8 matrices with a float32 scale for each block of elements (DeepSeek-V3, 2024).

A scale is what the block was divided by. ``scale_granularity_mnk`` tells the rows of a, the rows
of b and the elements of k of a block. In the major mode "K" scales are ``[rows, blocks of k]``, in "MN"
``[blocks of k, rows]``.
"""
from __future__ import annotations

from typing import Any

from .._binding import lib
from .._tensors import Tensor, as_dtype, dense, dtype_name, empty, on_host, stride_of
from ..quantization.fp8_quantization import per_token_group_quant_8bit
from ..utils import ceil_div
from .backends import check_backend


def _result(a, shape, out, out_dtype):
    name = dtype_name(out_dtype) if out_dtype is not None else "bfloat16"
    if out is None:
        return empty(shape, a, name)
    if out_dtype is not None and dtype_name(out.dtype) != name:
        raise ValueError(f"out: dtype is {out.dtype}, out_dtype is {out_dtype}")
    return out


def _k_major(name, scale, mode):
    """Scales with rows before blocks of k, as a view."""
    if mode in (None, "K"):
        return scale
    if mode == "MN":
        return scale.swapaxes(-1, -2)
    raise ValueError(f"{name}: scale_major_mode is {mode!r}, accepted: MN, K")


def _in_memory_order(name, scale, rows, blocks, inner):
    """Scales with `rows` before `blocks`, given either way round: the original reads their memory,
    in which `inner`, 0 for rows and 1 for blocks, lies next to each other. Where sizes do not tell
    which way that is, strides do."""
    shape = tuple(scale.shape)
    if shape not in ((rows, blocks), (blocks, rows)):
        raise ValueError(f"{name}: shape is {list(shape)}, expected [{rows}, {blocks}], or that "
                         "transposed")
    if rows == blocks:
        return scale if stride_of(scale, inner) == 1 else scale.T
    return scale if shape == (rows, blocks) else scale.T


def _grouped(a, b, indptr, out, scales, granularity):
    rows, n, k = granularity
    lib.grouped_gemm(a, b, indptr, out, *scales, rows, n, k)
    return out


def gemm_fp8_nt_groupwise(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                          scale_major_mode: str | None = None, mma_sm: int = 1,
                          scale_granularity_mnk: tuple[int, ...] = (1, 128, 128),
                          out: Tensor | None = None, out_dtype: Any = None,
                          backend: str = "cutlass") -> Tensor:
    """a @ bᵀ.

    Args:
        a: ``[m, k]`` float8_e4m3fn or float8_e5m2.
        b: ``[n, k]`` likewise.
        a_scale: ``[m / rows, k / 128]``, or transposed in the mode "MN".
        b_scale: ``[n / 128, k / 128]``, likewise.
        scale_major_mode: "K", also when None, or "MN". With the backend "trtllm" None, and both
            scales may be given either way round, as they are there: in memory a_scale has m next
            to each other, b_scale k.
        mma_sm: accepted; a hint for kernels of SM100.
        out: ``[m, n]``; made when None, of `out_dtype` (None: bfloat16).
        backend: "cutlass" or "trtllm", which tells how scales lie; "auto" is "cutlass".

    Returns:
        `out`.
    """
    if backend not in ("cutlass", "trtllm", "auto"):
        raise ValueError(f"backend: is {backend!r}, accepted: cutlass, trtllm, auto")
    out = _result(a, (a.shape[0], b.shape[0]), out, out_dtype)
    if backend == "trtllm" and scale_major_mode is None:
        rows, n, k = (ceil_div(size, block) for size, block in
                      zip((a.shape[0], b.shape[0], a.shape[1]), scale_granularity_mnk))
        scales = (_in_memory_order("a_scale", a_scale, rows, k, 0),
                  _in_memory_order("b_scale", b_scale, n, k, 1)[None])
    else:
        scales = (_k_major("gemm_fp8_nt_groupwise", a_scale, scale_major_mode),
                  _k_major("gemm_fp8_nt_groupwise", b_scale, scale_major_mode)[None])
    indptr = empty((2,), on_host(a_scale[:1, :1]), "int64")
    indptr[0], indptr[1] = 0, a.shape[0]
    return _grouped(a, b[None], indptr, out, scales, scale_granularity_mnk)


def gemm_fp8_nt_blockscaled(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                            scale_major_mode: str = "MN", mma_sm: int = 1,
                            out: Tensor | None = None, out_dtype: Any = None) -> Tensor:
    """gemm_fp8_nt_groupwise() with blocks of 128 x 128 elements of both."""
    return gemm_fp8_nt_groupwise(a, b, a_scale, b_scale, scale_major_mode, mma_sm,
                                 (128, 128, 128), out, out_dtype)


def group_gemm_fp8_nt_groupwise(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                                m_indptr: Tensor,
                                scale_granularity_mnk: tuple[int, ...] = (1, 128, 128),
                                scale_major_mode: str = "MN", mma_sm: int = 1,
                                out: Tensor | None = None, out_dtype: Any = None,
                                backend: str = "trtllm") -> Tensor:
    """a[rows of group g] @ b[g]ᵀ.

    Args:
        a: ``[num_rows, k]`` float8_e4m3fn or float8_e5m2.
        b: ``[num_groups, n, k]`` likewise.
        a_scale: as in gemm_fp8_nt_groupwise().
        b_scale: ``[num_groups, n / 128, k / 128]``, or transposed.
        m_indptr: ``[num_groups + 1]`` integers: where groups begin.
        out: ``[num_rows, n]``; made when None, of `out_dtype` (None: bfloat16).

    Returns:
        `out`.
    """
    check_backend(backend)
    out = _result(a, (a.shape[0], b.shape[1]), out, out_dtype)
    name = "group_gemm_fp8_nt_groupwise"
    scales = (_k_major(name, a_scale, scale_major_mode), _k_major(name, b_scale, scale_major_mode))
    return _grouped(a, b, on_host(m_indptr), out, scales, scale_granularity_mnk)


def group_deepgemm_fp8_nt_groupwise(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                                    m_indices: Tensor,
                                    scale_granularity_mnk: tuple[int, ...] = (1, 128, 128),
                                    out: Tensor | None = None, out_dtype: Any = None) -> Tensor:
    """a[t] @ b[m_indices[t]]ᵀ for each row t.

    Args:
        a: ``[num_rows, k]``; `b`: ``[num_groups, n, k]``; fp8.
        a_scale: ``[num_rows, k / 128]``; `b_scale`: ``[num_groups, n / 128, k / 128]``.
        m_indices: ``[num_rows]`` int32: the group of each row; rows of -1 are left as they are.

    Returns:
        `out`, ``[num_rows, n]``.
    """
    out = _result(a, (a.shape[0], b.shape[1]), out, out_dtype)
    lib.grouped_gemm_by_row(a, b, as_dtype(on_host(m_indices), "int32"), out, a_scale, b_scale,
                            *scale_granularity_mnk)
    return out


def batch_deepgemm_fp8_nt_groupwise(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor,
                                    masked_m: Tensor, expected_m: int,
                                    scale_granularity_mnk: tuple[int, ...] = (1, 128, 128),
                                    out: Tensor | None = None, out_dtype: Any = None) -> Tensor:
    """a[g, :masked_m[g]] @ b[g]ᵀ for each group g; other rows of `out` are left as they are.

    Args:
        a: ``[num_groups, max_rows, k]``; `b`: ``[num_groups, n, k]``; fp8.
        a_scale: ``[num_groups, max_rows, k / 128]``; `b_scale`: ``[num_groups, n / 128, k / 128]``.
        masked_m: ``[num_groups]`` int32.
        expected_m: accepted; a hint for GPUs.

    Returns:
        `out`, ``[num_groups, max_rows, n]``.
    """
    out = _result(a, tuple(a.shape[:2]) + (b.shape[1],), out, out_dtype)
    lib.grouped_gemm_masked(a, b, as_dtype(on_host(masked_m), "int32"), out, a_scale, b_scale,
                            *scale_granularity_mnk)
    return out


def _quantised_blocks(weight):
    """(fp8, float32 scales) of blocks of 128 x 128, the largest |x| of each over 448."""
    n, k = weight.shape
    blocks = ceil_div(n, 128)
    padded = empty((blocks * 128, k), weight)
    padded[:n] = weight
    padded[n:] = 0
    rows = dense(padded.reshape(blocks, 128, k // 128, 128).swapaxes(1, 2)).reshape(-1, 128 * 128)
    q, scales = per_token_group_quant_8bit(rows, 128 * 128)
    q = dense(q.reshape(blocks, k // 128, 128, 128).swapaxes(1, 2)).reshape(blocks * 128, k)
    return q[:n], scales.reshape(blocks, k // 128)


def fp8_blockscale_gemm_sm90(input: Tensor, weight: Tensor, input_scale: Tensor | None = None,
                             weight_scale: Tensor | None = None, out: Tensor | None = None,
                             out_dtype: Any = None) -> Tensor:
    """input @ weightᵀ of fp8 matrices with scales.

    Args:
        input: ``[m, k]``, k a multiple of 128; float8_e4m3fn with `input_scale`, or bfloat16,
            which is quantised in groups of 128 elements of a row.
        weight: ``[n, k]``; float8_e4m3fn with `weight_scale`, or bfloat16, which is quantised in
            blocks of 128 x 128.
        input_scale: ``[m, k / 128]``.
        weight_scale: ``[n, k / 128]`` or ``[n / 128, k / 128]``.
        out: ``[m, n]``; made when None, of `out_dtype` (None: bfloat16).

    Returns:
        `out`.
    """
    for name, x, scale in (("input", input, input_scale), ("weight", weight, weight_scale)):
        if len(x.shape) != 2 or x.shape[1] % 128:
            raise ValueError(f"{name}: shape is {list(x.shape)}, expected a matrix whose rows are "
                             "multiples of 128")
        if dtype_name(x.dtype).startswith("float8") != (scale is not None):
            raise ValueError(f"{name}_scale: is {'None' if scale is None else 'given'}, but {name} "
                             f"is {dtype_name(x.dtype)}")
    if input_scale is None:
        input, input_scale = per_token_group_quant_8bit(input, 128)
    if weight_scale is None:
        weight, weight_scale = _quantised_blocks(weight)
    n_per_scale = 1 if weight_scale.shape[0] == weight.shape[0] else 128
    return gemm_fp8_nt_groupwise(input, weight, input_scale, weight_scale, "K", 1,
                                 (1, n_per_scale, 128), out, out_dtype)
