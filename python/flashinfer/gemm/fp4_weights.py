# SPDX-License-Identifier: Apache-2.0
"""Products of 16-bit activations with NVFP4 weights, and NVFP4 products with a correction of low
rank (SVDQuant, Li et al. 2024). Weights are multiplied in bfloat16, which has all their values."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor, as_dtype, dtype_name, empty, scalar_or_tensor
from ..quantization.fp4_quantization import nvfp4_quantize
from ..tllm_enums import SfLayout
from .backends import check_backend
from .block_scaled import scaled_values

_BACKENDS = ("cudnn", "cute-dsl")


def _check(backend, block_size):
    if backend not in _BACKENDS:
        raise ValueError(f"backend: is {backend!r}, accepted: {', '.join(_BACKENDS)}")
    if block_size != 16:
        raise ValueError(f"block_size: is {block_size}, accepted: 16")


def prepare_bf16_fp4_weights(b: Tensor, b_descale: Tensor, alpha: Tensor | None = None, *,
                             backend: str,
                             block_size: int = 16) -> tuple[Tensor, Tensor, Tensor | None]:
    """(b, b_descale, alpha) as mm_bf16_fp4() takes them: as they are.

    Args:
        b: ``[n, k / 2]`` uint8, as nvfp4_quantize() makes them.
        b_descale: its scales in tiles of 128 rows and 4 blocks, or row-major.
        alpha: one float32, or None.
        backend: "cudnn" or "cute-dsl", which mean the same here.
    """
    _check(backend, block_size)
    return b, b_descale, alpha


def mm_bf16_fp4(a: Tensor, b: Tensor, b_descale: Tensor, alpha: float | Tensor | None = None, *,
                backend: str, out_dtype: Any = None, out: Tensor | None = None,
                block_size: int = 16, enable_pdl: bool = True) -> Tensor:
    """alpha · a @ bᵀ of NVFP4 weights.

    Args:
        a: ``[m, k]`` bfloat16.
        b, b_descale, alpha: what prepare_bf16_fp4_weights() gave; alpha None: 1.
        backend: as there.
        out_dtype: bfloat16 when None, float16 or float32.
        out: ``[m, n]``; made when None.
        enable_pdl: accepted; a hint for GPUs.

    Returns:
        `out`.
    """
    from .gemm_base import matmul

    _check(backend, block_size)
    if dtype_name(a.dtype) != "bfloat16":
        raise ValueError(f"a: is {dtype_name(a.dtype)}, accepted: bfloat16")
    factor, alpha = scalar_or_tensor(alpha)
    weights = scaled_values("b_descale", b, b_descale, "nvfp4", 16, SfLayout.layout_128x4)
    return matmul(a, weights.T, out, "bfloat16" if out_dtype is None else out_dtype, None, factor,
                  alpha, None)


def nvfp4_quantize_smooth(x: Tensor, pre_quant_scale: Tensor, global_scale: float | Tensor,
                          enable_pdl: bool | None = None,
                          backend: str = "cutlass") -> tuple[Tensor, Tensor]:
    """nvfp4_quantize() of x · pre_quant_scale.

    Args:
        x: ``[m, k]`` bfloat16 or float16.
        pre_quant_scale: ``[k]``.
        global_scale: one float32: (448 · 6) / the largest product.
        backend: accepted; which kernel runs is the library's choice.

    Returns:
        (``[m, k / 2]`` uint8, uint8 scales in tiles of 128 rows and 4 blocks)
    """
    check_backend(backend)
    smooth = as_dtype(x, "float32") * as_dtype(pre_quant_scale, "float32")
    return nvfp4_quantize(smooth, global_scale)


def mm_nvfp4_svdquant(a: Tensor, b: Tensor, a_sf: Tensor, b_sf: Tensor, alpha: float | Tensor,
                      d: Tensor, l1: Tensor, bias: Tensor | None = None, out: Tensor | None = None,
                      backend: str = "cutlass", enable_pdl: bool | None = None) -> Tensor:
    """alpha · (a @ bᵀ + d @ l1ᵀ) + bias.

    Args:
        a: ``[m, k / 2]`` uint8, of nvfp4_quantize_smooth(); b: ``[n, k / 2]`` uint8.
        a_sf, b_sf: their scales in tiles of 128 rows and 4 blocks, or row-major.
        alpha: one float32.
        d: ``[m, rank]`` bfloat16; l1: ``[n, rank]`` bfloat16, in which is 1 / alpha.
        bias: ``[n]``, or None.
        out: ``[m, n]`` bfloat16; made when None.
        backend: accepted; which kernel runs is the library's choice.

    Returns:
        `out`.
    """
    from .gemm_base import matmul

    check_backend(backend)
    if tuple(d.shape) != (a.shape[0], l1.shape[1]) or l1.shape[0] != b.shape[0]:
        raise ValueError(f"d, l1: shapes are {list(d.shape)} and {list(l1.shape)}, expected "
                         f"[{a.shape[0]}, rank] and [{b.shape[0]}, rank]")
    factor, alpha = scalar_or_tensor(alpha)
    left, right = (scaled_values(name, x, scales, "nvfp4", 16, SfLayout.layout_128x4)
                   for name, x, scales in (("a_sf", a, a_sf), ("b_sf", b, b_sf)))
    total = matmul(left, right.T, None, "float32", None, factor, alpha, None)
    total += matmul(d, l1.T, None, "float32", None, factor, alpha, None)
    if bias is not None:
        total += as_dtype(bias, "float32")
    if out is None:
        out = empty(tuple(total.shape), d, "bfloat16")
    out[...] = as_dtype(total, dtype_name(out.dtype))
    return out


def svdquant_linear(x: Tensor, weight_fp4: Tensor, weight_sf: Tensor, alpha: float | Tensor,
                    pre_quant_scale: Tensor, l2t_smoothed: Tensor, l1_scaled: Tensor,
                    global_scale: float | Tensor, bias: Tensor | None = None,
                    enable_pdl: bool | None = None) -> Tensor:
    """A linear layer of SVDQuant: x of nvfp4_quantize_smooth() and x @ l2t_smoothed, put together by
    mm_nvfp4_svdquant().

    Args:
        x: ``[m, k]`` bfloat16.
        weight_fp4, weight_sf: the NVFP4 rest of the weight and its scales.
        l2t_smoothed: ``[k, rank]`` bfloat16; l1_scaled: ``[n, rank]`` bfloat16.

    Returns:
        ``[m, n]`` bfloat16.
    """
    from .gemm_base import matmul

    q, scales = nvfp4_quantize_smooth(x, pre_quant_scale, global_scale)
    down = matmul(x, l2t_smoothed, None, "bfloat16")
    return mm_nvfp4_svdquant(q, weight_fp4, scales, weight_sf, alpha, down, l1_scaled, bias)
