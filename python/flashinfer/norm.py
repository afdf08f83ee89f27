# SPDX-License-Identifier: Apache-2.0
"""Normalisation over the last dimension."""
from ._binding import lib
from ._tensors import empty_like


def rmsnorm(input, weight, eps=1e-6, out=None, enable_pdl=None):
    """Root mean square norm (Zhang and Sennrich, 2019): x / sqrt(mean(x²) + eps) · weight.

    Args:
        input: ``[num_tokens, hidden_size]`` or ``[num_tokens, num_heads, hidden_size]``; float32,
            float16, bfloat16. The last dimension is dense, others have any strides.
        weight: ``[hidden_size]``, the dtype of `input` or float32.
        eps: added to the mean square.
        out: as `input`; made when None. May be `input` itself.
        enable_pdl: accepted; launches overlap where the GPU allows it.

    Returns:
        `out`.

    Raises:
        ValueError: a shape, stride or dtype is wrong; names the argument.
    """
    if out is None:
        out = empty_like(input)
    lib.rmsnorm(input, weight, out, eps)
    return out
