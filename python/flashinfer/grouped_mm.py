# SPDX-License-Identifier: Apache-2.0
"""Products of groups of rows with a matrix each: the experts of a mixture.

``backend`` and ``tactic`` are accepted; which kernel runs is the library's choice.
"""
from __future__ import annotations

from typing import Any

from ._binding import lib
from ._tensors import Tensor, as_dtype, dtype_name, empty, on_host
from .gemm.backends import check_backend
from .gemm.block_scaled_groups import grouped_mm_fp4, grouped_mm_mxfp8


def _grouped(a, b, m_indptr, out, out_dtype):
    if out is None:
        out = empty((a.shape[0], b.shape[1]), a, dtype_name(out_dtype))
    a_name, out_name = dtype_name(a.dtype), dtype_name(out.dtype)
    indptr = on_host(m_indptr)
    if out_name in ("float32", a_name) or a_name.startswith("float8"):
        lib.grouped_gemm(a, b, indptr, out, None, None, 1, 128, 128)
    else:
        total = empty(tuple(out.shape), out, "float32")
        lib.grouped_gemm(a, b, indptr, total, None, None, 1, 128, 128)
        out[...] = as_dtype(total, out_name)
    return out


def grouped_mm_bf16(a: Tensor, b: Tensor, m_indptr: Tensor, out: Tensor | None = None,
                    out_dtype: Any = "bfloat16", *, backend: str = "cudnn",
                    tactic: int = -1) -> Tensor:
    """a[rows of group g] @ b[g]ᵀ.

    Args:
        a: ``[num_rows, k]`` bfloat16; `b`: ``[num_groups, n, k]`` bfloat16.
        m_indptr: ``[num_groups + 1]`` integers: where groups begin.
        out: ``[num_rows, n]``; made when None.

    Returns:
        `out`.
    """
    check_backend(backend)
    return _grouped(a, b, m_indptr, out, out_dtype)


def grouped_mm_fp8(a: Tensor, b: Tensor, m_indptr: Tensor, alpha: Any = None,
                   out: Tensor | None = None, out_dtype: Any = "bfloat16", *,
                   backend: str = "cudnn", tactic: int = -1) -> Tensor:
    """grouped_mm_bf16() of fp8 matrices, times `alpha`, one float32 (None: 1)."""
    check_backend(backend)
    if alpha is None:
        return _grouped(a, b, m_indptr, out, out_dtype)
    total = _grouped(a, b, m_indptr, None, "float32") * alpha
    if out is None:
        return as_dtype(total, dtype_name(out_dtype))
    out[...] = as_dtype(total, dtype_name(out.dtype))
    return out
