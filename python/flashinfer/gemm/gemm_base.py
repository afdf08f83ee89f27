# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices, batches of them, and segments of rows with a weight each.

``backend`` takes the original's names; which kernel runs is the library's choice.
"""
from __future__ import annotations

from typing import Any

from .._binding import lib
from .._tensors import Tensor, as_dtype, dtype_name, empty, on_host, scalar_or_tensor
from ..trtllm_low_latency_gemm import mm_fp8
from .backends import check_backend
from .block_scaled import mm_fp4, mm_mxfp8
from .block_scaled_groups import (
    bmm_mxfp8,
    group_gemm_mxfp8_mxfp4_nt_groupwise,
    group_gemm_nvfp4_nt_groupwise,
)
from .groupwise import (
    batch_deepgemm_fp8_nt_groupwise,
    fp8_blockscale_gemm_sm90,
    gemm_fp8_nt_blockscaled,
    gemm_fp8_nt_groupwise,
    group_deepgemm_fp8_nt_groupwise,
    group_gemm_fp8_nt_groupwise,
)

CUDNN_AVAILABLE = False  # the library's own kernels alone

_FP8 = ("float8_e4m3fn", "float8_e5m2")


def matmul(a: Tensor, b: Tensor, out: Tensor, out_dtype: Any, bias: Tensor | None = None,
           scale: float | Tensor = 1.0, a_scale: Tensor | None = None,
           b_scale: Tensor | None = None) -> Tensor:
    """out = scale · a_scale · b_scale · a @ b + bias, rounded once.

    b is ``[k, n]`` or a batch of such; `out` is made when None.
    """
    shape = tuple(a.shape[:-1]) + (b.shape[-1],)
    if out is None:
        out = empty(shape, a, dtype_name(out_dtype))
    elif tuple(out.shape) != shape:
        raise ValueError(f"out: shape is {list(out.shape)}, expected {list(shape)}")
    elif dtype_name(out.dtype) != dtype_name(out_dtype):
        raise ValueError(f"out: dtype is {out.dtype}, out_dtype is {out_dtype}")
    a_name, out_name = dtype_name(a.dtype), dtype_name(out.dtype)
    is_direct = out_name in ("float32", a_name) or a_name in _FP8
    if bias is None and is_direct:
        lib.matmul(a, b, out, scale, a_scale, b_scale)
        return out
    total = empty(shape, a, "float32")
    lib.matmul(a, b, total, scale, a_scale, b_scale)
    if bias is not None:
        total += as_dtype(bias, "float32")
    out[...] = as_dtype(total, out_name)
    return out


def _check_dtypes(name, accepted, **tensors):
    for argument, tensor in tensors.items():
        if dtype_name(tensor.dtype) not in accepted:
            raise ValueError(f"{name}: {argument} is {tensor.dtype}, "
                             f"accepted: {', '.join(accepted)}")


def mm_bf16(a: Tensor, b: Tensor, bias: Tensor | None = None, pdl: bool = False,
            out: Tensor | None = None, out_dtype: Any = "bfloat16",
            backend: str = "cudnn") -> Tensor:
    """a @ b + bias.

    Args:
        a: ``[m, k]`` bfloat16.
        b: ``[k, n]`` bfloat16, column-major for speed: the transposed view of ``[n, k]``.
        bias: ``[n]`` or None.
        out: ``[m, n]``; made when None.
        out_dtype: bfloat16, float16 or float32.

    Returns:
        `out`.
    """
    check_backend(backend)
    _check_dtypes("mm_bf16", ("bfloat16",), a=a, b=b)
    return matmul(a, b, out, out_dtype, bias)


def bmm_bf16(A: Tensor, B: Tensor, out: Tensor | None = None, out_dtype: Any = "bfloat16",
             backend: str = "cudnn") -> Tensor:
    """Products of a batch.

    Args:
        A: ``[batch_size, m, k]`` bfloat16.
        B: ``[batch_size, k, n]`` bfloat16.
        out: ``[batch_size, m, n]``; made when None.

    Returns:
        `out`.
    """
    check_backend(backend)
    _check_dtypes("bmm_bf16", ("bfloat16",), A=A, B=B)
    return matmul(A, B, out, out_dtype)


def bmm_fp8(A: Tensor, B: Tensor, A_scale: float | Tensor, B_scale: float | Tensor, dtype: Any,
            out: Tensor | None = None, backend: str = "cublas") -> Tensor:
    """A_scale · B_scale · A @ B of a batch of fp8 matrices.

    Args:
        A: ``[batch_size, m, k]`` float8_e4m3fn or float8_e5m2.
        B: ``[batch_size, k, n]`` likewise, column-major for speed.
        A_scale: a number, or one float32: what A was divided by.
        B_scale: likewise.
        dtype: bfloat16, float16 or float32: of the result.
        out: ``[batch_size, m, n]``; made when None.

    Returns:
        `out`.
    """
    check_backend(backend)
    _check_dtypes("bmm_fp8", _FP8, A=A, B=B)
    a_factor, A_scale = scalar_or_tensor(A_scale)
    b_factor, B_scale = scalar_or_tensor(B_scale)
    return matmul(A, B, out, dtype, None, a_factor * b_factor, A_scale, B_scale)


class SegmentGEMMWrapper:
    """Multiplies segments of rows with a weight of each (LoRA)."""

    def __init__(self, float_workspace_buffer: Tensor, backend: str = "auto") -> None:
        """`float_workspace_buffer` is accepted; products need no memory beside their results.
        `backend` is auto, sm80 or sm90, all of which leave the choice to the library."""
        if backend not in ("auto", "sm80", "sm90"):
            raise ValueError(f"backend is {backend!r}, accepted: auto, sm80, sm90")
        self._workspace = float_workspace_buffer
        self.backend = backend

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor,
                               int_workspace_buffer: Tensor | None = None) -> None:
        """Accepts other buffers."""
        self._workspace = float_workspace_buffer

    def run(self, x: Tensor, weights: Tensor, batch_size: int, weight_column_major: bool,
            out: Tensor | None = None, seg_lens: Tensor | None = None,
            seg_indptr: Tensor | None = None, weight_indices: Tensor | None = None) -> Tensor:
        """out[rows of segment i] = x[rows of segment i] @ weight of segment i.

        Args:
            x: ``[num_rows, d_in]``; float32, float16, bfloat16.
            weights: ``[num_weights, d_out, d_in]`` when `weight_column_major`, else
                ``[num_weights, d_in, d_out]``; the dtype of `x`.
            batch_size: segments.
            out: ``[num_rows, d_out]``; made when None.
            seg_lens: ``[batch_size]`` integers: rows of each segment; or
            seg_indptr: ``[batch_size + 1]`` integers, from 0 to num_rows: where segments begin.
            weight_indices: ``[batch_size]`` integers: the weight of each segment; None: its own.

        Returns:
            `out`.
        """
        seg_indptr = _segment_indptr(x, batch_size, seg_lens, seg_indptr)
        d_out = weights.shape[1 if weight_column_major else 2]
        if out is None:
            out = empty((x.shape[0], d_out), x)
        if weight_indices is not None:
            weight_indices = as_dtype(on_host(weight_indices), "int64")
        lib.segment_gemm(x, weights, not weight_column_major, seg_indptr, weight_indices, out)
        return out

    forward = run


def _segment_indptr(x, batch_size, seg_lens, seg_indptr):
    """[batch_size + 1] int64 in host memory."""
    if seg_indptr is None:
        if seg_lens is None:
            raise ValueError("Either seg_lens or seg_indptr should be provided.")
        lengths = as_dtype(on_host(seg_lens), "int64")
        seg_indptr = empty((lengths.shape[0] + 1,), lengths)
        seg_indptr[0] = 0
        seg_indptr[1:] = lengths.cumsum(0)
    if seg_indptr.shape[0] != batch_size + 1:
        raise ValueError(f"batch_size is {batch_size}, "
                         f"there are {seg_indptr.shape[0] - 1} segments")
    return as_dtype(on_host(seg_indptr), "int64")


def tgv_gemm_sm100(a: Tensor, b: Tensor, bias: Tensor, pdl: bool = False,
                   out: Tensor | None = None) -> Tensor:
    """a @ b + bias.

    Args:
        a: ``[m, k]`` bfloat16 or float16.
        b: ``[k, n]`` of its dtype, column-major for speed.
        bias: ``[n]``, or None.
        pdl: accepted; a hint for GPUs.
        out: ``[m, n]`` of the dtype of `a`; made when None.

    Returns:
        `out`.
    """
    _check_dtypes("tgv_gemm_sm100", ("bfloat16", "float16"), a=a, b=b)
    return matmul(a, b, out, dtype_name(a.dtype), bias)
