# SPDX-License-Identifier: Apache-2.0
"""Small products of a mixture's router, and of few tokens."""
from __future__ import annotations

from .._tensors import Tensor, dtype_name
from .gemm_base import matmul


def tinygemm_bf16(input: Tensor, weight: Tensor, out: Tensor, bias: Tensor | None = None,
                  use_pdl: bool = False) -> None:
    """out = input @ weightᵀ + bias.

    Args:
        input: ``[m, k]`` bfloat16; `weight`: ``[n, k]`` bfloat16; `bias`: ``[n]`` or None.
        out: ``[m, n]`` bfloat16 or float32; written.
    """
    matmul(input, weight.T, out, dtype_name(out.dtype), bias)


def _router(name, k, n):
    def product(mat_a: Tensor, mat_b: Tensor, out: Tensor, launch_with_pdl: bool = True) -> None:
        if not 1 <= mat_a.shape[0] <= 16:
            raise ValueError(f"mat_a: {mat_a.shape[0]} rows, expected 1 to 16")
        if mat_a.shape[1] != k or tuple(mat_b.shape) != (k, n):
            raise ValueError(f"mat_a: shape is {list(mat_a.shape)}, mat_b: {list(mat_b.shape)}, "
                             f"expected k={k} and n={n}")
        matmul(mat_a, mat_b, out, dtype_name(out.dtype))

    product.__name__ = product.__qualname__ = name
    product.__doc__ = (f"out = mat_a @ mat_b, of 1 to 16 rows of {k}, with ``[{k}, {n}]``; "
                       "bfloat16, `out` bfloat16 or float32.")
    return product


mm_M1_16_K7168_N128 = _router("mm_M1_16_K7168_N128", 7168, 128)
mm_M1_16_K7168_N256 = _router("mm_M1_16_K7168_N256", 7168, 256)
mm_M1_16_K6144_N256 = _router("mm_M1_16_K6144_N256", 6144, 256)
