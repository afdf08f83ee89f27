# SPDX-License-Identifier: Apache-2.0
"""Gated activations under the name of the original's Triton kernels."""
from __future__ import annotations

from typing import Any

from .. import activation
from .._pending import refuse
from .._tensors import Tensor


def silu_and_mul(x: Tensor, x_scale: float | Tensor | None = None,
                 o_scale: float | Tensor | None = None, dtype: Any = None) -> Any:
    """flashinfer.silu_and_mul(); scales and another dtype raise NotImplementedError."""
    refuse("silu_and_mul", x_scale=x_scale, o_scale=o_scale, dtype=dtype)
    return activation.silu_and_mul(x)
