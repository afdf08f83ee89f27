# SPDX-License-Identifier: Apache-2.0
"""Putting the parts of latent attention's keys together."""

from __future__ import annotations

from ._tensors import Tensor


def concat_mla_k(k: Tensor, k_nope: Tensor, k_rope: Tensor) -> None:
    """Writes k[…, :nope_dim] = k_nope and k[…, nope_dim:] = k_rope, the same for all heads.

    Args:
        k: ``[num_tokens, num_heads, nope_dim + rope_dim]``; written.
        k_nope: ``[num_tokens, num_heads, nope_dim]``.
        k_rope: ``[num_tokens, 1, rope_dim]``.
    """
    nope_dim = k_nope.shape[-1]
    if k.shape[-1] != nope_dim + k_rope.shape[-1]:
        raise ValueError(f"k: last dimension is {k.shape[-1]}, expected "
                         f"{nope_dim} + {k_rope.shape[-1]}")
    if tuple(k.shape[:2]) != tuple(k_nope.shape[:2]) or k_rope.shape[0] != k.shape[0]:
        raise ValueError(f"k_nope: shape is {list(k_nope.shape)}, k_rope: {list(k_rope.shape)}, "
                         f"expected the tokens and heads of k, {list(k.shape)}")
    if not k.dtype == k_nope.dtype == k_rope.dtype:
        raise ValueError(f"k: dtype is {k.dtype}, of its parts {k_nope.dtype} and {k_rope.dtype}; "
                         "expected one")
    k[..., :nope_dim] = k_nope
    k[..., nope_dim:] = k_rope
