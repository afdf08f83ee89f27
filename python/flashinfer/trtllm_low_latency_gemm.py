# SPDX-License-Identifier: Apache-2.0
"""Products of fp8 activations with weights whose rows are shuffled and cut into columns of 128."""
from __future__ import annotations

from typing import Any

from ._tensors import Tensor, dense, dtype_name, empty, scalar_or_tensor
from .row_shuffle import get_shuffle_matrix_a_row_indices, shuffle_matrix_a

_COLUMNS, _TILE = 128, 128


def prepare_low_latency_gemm_weights(w: Tensor,
                                     permutation_indices_cache: dict | None = None) -> Tensor:
    """``[k / 128, n, 128]`` of a weight: columns of 128, of rows in the order of
    shuffle_matrix_a(·, 128).

    Args:
        w: ``[n, k]`` float8_e4m3fn; n and k multiples of 128.
        permutation_indices_cache: accepted, and not needed.
    """
    if len(w.shape) != 2 or w.shape[0] % _TILE or w.shape[1] % _COLUMNS:
        raise ValueError(f"w: shape is {list(w.shape)}, expected multiples of 128")
    n, k = w.shape
    return dense(shuffle_matrix_a(w, _TILE).reshape((n, k // _COLUMNS, _COLUMNS)).swapaxes(0, 1))


def trtllm_low_latency_gemm(A: Tensor, B: Tensor, global_scale: float | Tensor | None,
                            out: Tensor) -> Tensor:
    """out = global_scale · A @ Bᵀ.

    Args:
        A: ``[m, k]`` float8_e4m3fn.
        B: ``[k / 128, n, 128]`` of prepare_low_latency_gemm_weights().
        global_scale: one float32; None: 1.
        out: ``[m, n]``.

    Returns:
        `out`.
    """
    from .gemm.gemm_base import matmul

    if len(B.shape) != 3 or B.shape[2] != _COLUMNS or B.shape[0] * _COLUMNS != A.shape[1]:
        raise ValueError(f"B: shape is {list(B.shape)}, expected [{A.shape[1] // _COLUMNS}, n, 128]")
    n = B.shape[1]
    if tuple(out.shape) != (A.shape[0], n):
        raise ValueError(f"out: shape is {list(out.shape)}, expected {[A.shape[0], n]}")
    weights = dense(B.swapaxes(0, 1)).reshape((n, A.shape[1]))
    factor, scale = scalar_or_tensor(global_scale)
    product = matmul(A, weights.T, None, dtype_name(out.dtype), None, factor, scale, None)
    out[:, get_shuffle_matrix_a_row_indices(B[0], _TILE)] = product
    return out


def mm_fp8(a: Tensor, b: Tensor, alpha: float | Tensor | None = None, out_dtype: Any = "bfloat16",
           out: Tensor | None = None, backend: str = "trtllm_low_latency") -> Tensor:
    """alpha · a @ b of fp8 weights that were prepared.

    Args:
        a: ``[m, k]`` float8_e4m3fn.
        b: ``[k / 128, n, 128]`` of prepare_low_latency_gemm_weights().
        alpha: one float32; None: 1.
        out_dtype: bfloat16, float16 or float32.
        out: ``[m, n]``; made when None.
        backend: "trtllm_low_latency", for which weights are prepared.

    Returns:
        `out`.
    """
    if backend != "trtllm_low_latency":
        raise ValueError(f"backend: is {backend!r}, accepted: trtllm_low_latency")
    if out is None:
        out = empty((a.shape[0], b.shape[1]), a, dtype_name(out_dtype))
    return trtllm_low_latency_gemm(a, b, alpha, out)
