# SPDX-License-Identifier: Apache-2.0
"""RMSNorm under the names of the original's Triton kernels."""
from __future__ import annotations

from .. import norm
from .._pending import refuse
from .._tensors import Tensor


def rms_norm(x: Tensor, weight: Tensor, out: Tensor, eps: float,
             in_scale: float | Tensor | None = None,
             out_scale: float | Tensor | None = None) -> None:
    """flashinfer.rmsnorm() into `out`; scales raise NotImplementedError."""
    refuse("rms_norm", in_scale=in_scale, out_scale=out_scale)
    norm.rmsnorm(x, weight, eps, out)


def rms_norm_add_residual(x: Tensor, residual: Tensor, weight: Tensor, eps: float,
                          x_out: Tensor | None = None, x_in_scale: float | Tensor | None = None,
                          x_out_scale: float | Tensor | None = None) -> None:
    """flashinfer.fused_add_rmsnorm(), in place; what is not raises NotImplementedError."""
    refuse("rms_norm_add_residual", x_out=x_out, x_in_scale=x_in_scale, x_out_scale=x_out_scale)
    norm.fused_add_rmsnorm(x, residual, weight, eps)
