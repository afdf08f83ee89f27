# SPDX-License-Identifier: Apache-2.0
"""RMSNorm under the names of the original's Triton kernels."""
from .. import norm
from .._pending import refuse


def rms_norm(x, weight, out, eps, in_scale=None, out_scale=None):
    """flashinfer.rmsnorm() into `out`; scales raise NotImplementedError."""
    refuse("rms_norm", in_scale=in_scale, out_scale=out_scale)
    norm.rmsnorm(x, weight, eps, out)


def rms_norm_add_residual(x, residual, weight, eps, x_out=None, x_in_scale=None,
                          x_out_scale=None):
    """flashinfer.fused_add_rmsnorm(), in place; what is not raises NotImplementedError."""
    refuse("rms_norm_add_residual", x_out=x_out, x_in_scale=x_in_scale, x_out_scale=x_out_scale)
    norm.fused_add_rmsnorm(x, residual, weight, eps)
