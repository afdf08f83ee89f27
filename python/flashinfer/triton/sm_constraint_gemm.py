# SPDX-License-Identifier: Apache-2.0
"""Products alpha · a @ b + beta · c, which the original runs on a part of a device's
multiprocessors. ``num_sms`` and ``EPILOGUE_SUBTILE`` are hints that change no result."""
from __future__ import annotations

from typing import Any

from .._binding import lib
from .._tensors import Tensor, as_dtype, dtype_name, empty


def _product(a, b, c, alpha, beta, out_dtype):
    """Of b ``[k, n]``; summed in float32 and rounded once."""
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"b: shape is {list(b.shape)}, expected a matrix that fits a, "
                         f"{list(a.shape)}")
    if out_dtype is not None:
        name = dtype_name(out_dtype)
    else:
        name = "bfloat16" if dtype_name(a.dtype).startswith("float8") else dtype_name(a.dtype)
    shape = (a.shape[0], b.shape[1])
    if c is None:
        if beta != 0:
            raise ValueError(f"beta: is {beta}, but there is no c")
        c = empty(shape, a, name)
    elif tuple(c.shape) != shape or dtype_name(c.dtype) != name:
        raise ValueError(f"c: is {dtype_name(c.dtype)} of shape {list(c.shape)}, expected {name} "
                         f"{list(shape)}")
    total = empty(shape, a, "float32")
    lib.matmul(a, b, total, float(alpha), None, None)
    if beta != 0:
        total += beta * as_dtype(c, "float32")
    c[...] = as_dtype(total, name)
    return c


def gemm(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 0.0,
         out_dtype: Any = None) -> Tensor:
    """alpha · a @ b + beta · c.

    Args:
        a: ``[m, k]`` float16, bfloat16, float32 or float8_e4m3fn; `b`: ``[k, n]`` of its dtype.
        c: ``[m, n]``, read when beta is not 0, and written; made when None.
        out_dtype: of `c`: that of `a` when None, of float8_e4m3fn bfloat16.

    Returns:
        `c`.
    """
    return _product(a, b, c, alpha, beta, out_dtype)


def gemm_persistent(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0,
                    beta: float = 0.0, out_dtype: Any = None, num_sms: int | None = None) -> Tensor:
    """gemm()."""
    return _product(a, b, c, alpha, beta, out_dtype)


def gemm_descriptor_persistent(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0,
                               beta: float = 0.0, out_dtype: Any = None, num_sms: int | None = None,
                               EPILOGUE_SUBTILE: bool = False) -> Tensor:
    """gemm() of b ``[n, k]``, whose rows are the columns of the product."""
    return _product(a, b.T, c, alpha, beta, out_dtype)
