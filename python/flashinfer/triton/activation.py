# SPDX-License-Identifier: Apache-2.0
"""Gated activations under the name of the original's Triton kernels."""
from .. import activation
from .._pending import refuse


def silu_and_mul(x, x_scale=None, o_scale=None, dtype=None):
    """flashinfer.silu_and_mul(); scales and another dtype raise NotImplementedError."""
    refuse("silu_and_mul", x_scale=x_scale, o_scale=o_scale, dtype=dtype)
    return activation.silu_and_mul(x)
