# SPDX-License-Identifier: Apache-2.0
"""Merging attention states that were computed over disjoint sets of keys (Ye et al., 2024)."""
from __future__ import annotations

from .._binding import lib
from .._tensors import Tensor, empty, empty_like


def _answers_for_devices(function):
    """`function` with the questions that the original's functions answer: which compute
    capabilities it runs on (75 and newer), and that it has no backends to choose from."""
    function.is_compute_capability_supported = lambda cc: cc >= 75
    function.is_backend_supported = lambda backend, cc=None: False
    function.has_backend = lambda backend: False
    function.has_backend_choices = lambda: False
    return function


@_answers_for_devices
def merge_state(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor) -> tuple[Tensor, Tensor]:
    """The state over both sets of keys of two: v = Σ 2^(s_i - s) v_i, s = log2 Σ 2^s_i.

    A state with s_i = -inf is neutral, whatever its v; two of them give 0 and -inf.

    Args:
        v_a, v_b: ``[num_tokens, num_heads, head_dim]`` float32, float16 or bfloat16, of one dtype.
        s_a, s_b: ``[num_tokens, num_heads]`` float32, base-2 logarithms.

    Returns:
        (v, s) of these shapes and dtypes.

    Raises:
        ValueError: a shape or dtype is wrong; names the argument.
    """
    v, s = empty_like(v_a), empty_like(s_a)
    lib.merge_state(v_a, s_a, v_b, s_b, v, s)
    return v, s


@_answers_for_devices
def merge_state_in_place(v: Tensor, s: Tensor, v_other: Tensor, s_other: Tensor,
                         mask: Tensor | None = None) -> None:
    """Merges the state (v_other, s_other) into (v, s); shapes and dtypes as in merge_state().

    Args:
        mask: ``[num_tokens]`` bool; tokens with false keep their state. None: all merge.
    """
    lib.merge_state_in_place(v, s, v_other, s_other, mask)


@_answers_for_devices
def merge_states(v: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """The state over all sets of keys of many, in their order; none gives 0 and -inf.

    Args:
        v: ``[num_tokens, num_states, num_heads, head_dim]`` float32, float16 or bfloat16.
        s: ``[num_tokens, num_states, num_heads]`` float32, base-2 logarithms.

    Returns:
        (v ``[num_tokens, num_heads, head_dim]``, s ``[num_tokens, num_heads]``).
    """
    v_merged = empty((v.shape[0], *v.shape[2:]), v)
    s_merged = empty((s.shape[0], *s.shape[2:]), s)
    lib.merge_states(v, s, v_merged, s_merged)
    return v_merged, s_merged


def variable_length_merge_states(v: Tensor, s: Tensor, indptr: Tensor) -> tuple[Tensor, Tensor]:
    """merge_states() where each token has its own number of states.

    Args:
        v: ``[num_states, num_heads, head_dim]`` float32, float16 or bfloat16.
        s: ``[num_states, num_heads]`` float32, base-2 logarithms.
        indptr: ``[num_tokens + 1]`` int32, not decreasing, first 0: states of each token.

    Returns:
        (v ``[num_tokens, num_heads, head_dim]``, s ``[num_tokens, num_heads]``).
    """
    num_tokens = len(indptr) - 1
    v_merged = empty((num_tokens, *v.shape[1:]), v)
    s_merged = empty((num_tokens, *s.shape[1:]), s)
    lib.variable_length_merge_states(v, s, indptr, v_merged, s_merged)
    return v_merged, s_merged
