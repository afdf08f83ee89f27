# SPDX-License-Identifier: Apache-2.0
"""Attention over one prefix that a whole batch shares: the original's wrappers of two levels."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor
from .batch_decode import BatchDecodeWithPagedKVCacheWrapper
from .batch_prefill import BatchPrefillWithPagedKVCacheWrapper
from .merge import merge_state_in_place
from .single import single_prefill_with_kv_cache


class BatchDecodeWithSharedPrefixPagedKVCacheWrapper:
    """Decode over a shared prefix and each request's own keys. Deprecated in the original for
    MultiLevelCascadeAttentionWrapper.

    Args:
        float_workspace_buffer: as of BatchDecodeWithPagedKVCacheWrapper.
        kv_layout: ``"NHD"`` or ``"HND"``, of all keys.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        self._inner = BatchDecodeWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)
        self._kv_layout = kv_layout

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor,
                               int_workspace_buffer: Tensor | None = None) -> None:
        """Takes another workspace, from the next begin_forward() on."""
        self._inner.reset_workspace_buffer(float_workspace_buffer, int_workspace_buffer)

    def begin_forward(self, unique_kv_indptr: Tensor, unique_kv_indices: Tensor,
                      unique_kv_last_page_len: Tensor, num_qo_heads: int, num_kv_heads: int,
                      head_dim: int, page_size: int, data_type: Any = "float16") -> None:
        """Plans; the first three arguments are the tables of each request's own keys."""
        self._inner.plan(unique_kv_indptr, unique_kv_indices, unique_kv_last_page_len,
                         num_qo_heads, num_kv_heads, head_dim, page_size, q_data_type=data_type,
                         kv_data_type=data_type)

    def forward(self, q: Tensor, k_shared: Tensor, v_shared: Tensor,
                unique_kv_cache: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """Attention of the planned batch.

        Args:
            q: ``[num_requests, num_qo_heads, head_dim]``.
            k_shared, v_shared: ``[prefix_len, num_kv_heads, head_dim]`` (HND: the first two the
                other way round).
            unique_kv_cache: as of BatchDecodeWithPagedKVCacheWrapper.run().

        Returns:
            ``[num_requests, num_qo_heads, head_dim]``.
        """
        v, s = single_prefill_with_kv_cache(q, k_shared, v_shared, kv_layout=self._kv_layout,
                                            return_lse=True)
        out, lse = self._inner.run(q, unique_kv_cache, return_lse=True)
        merge_state_in_place(out, lse, v, s)
        return out

    def end_forward(self) -> None:
        """Does nothing: of the original's older interface."""


class BatchPrefillWithSharedPrefixPagedKVCacheWrapper:
    """Prefill over a shared prefix and each request's own keys. Deprecated in the original for
    MultiLevelCascadeAttentionWrapper.

    Args:
        float_workspace_buffer: as of BatchPrefillWithPagedKVCacheWrapper.
        kv_layout: ``"NHD"`` or ``"HND"``, of all keys.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        self._inner = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)
        self._kv_layout = kv_layout
        self._tables = None

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor,
                               int_workspace_buffer: Tensor | None = None) -> None:
        """Takes another workspace, from the next begin_forward() on."""
        self._inner.reset_workspace_buffer(float_workspace_buffer, int_workspace_buffer)

    def begin_forward(self, qo_indptr: Tensor, paged_kv_indptr: Tensor, paged_kv_indices: Tensor,
                      paged_kv_last_page_len: Tensor, num_qo_heads: int, num_kv_heads: int,
                      head_dim: int, page_size: int) -> None:
        """Takes the tables of each request's own keys; the first forward() plans, for the dtypes
        are those of its tensors."""
        self._tables = (qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len,
                        num_qo_heads, num_kv_heads, head_dim, page_size)
        self._planned_for = None

    def forward(self, q: Tensor, k_shared: Tensor, v_shared: Tensor,
                unique_kv_cache: Tensor | tuple[Tensor, Tensor], causal: bool = False,
                use_fp16_qk_reduction: bool = False, sm_scale: float | Tensor | None = None,
                rope_scale: float | None = None, rope_theta: float | None = None) -> Tensor:
        """Attention of the planned batch.

        Args:
            q: ``[num_tokens, num_qo_heads, head_dim]``.
            k_shared, v_shared: ``[prefix_len, num_kv_heads, head_dim]`` (HND: the first two the
                other way round).
            unique_kv_cache: as of BatchPrefillWithPagedKVCacheWrapper.run().
            causal: over each request's own keys.
            use_fp16_qk_reduction: accepted: scores are always summed in float32.
            sm_scale: 1 / sqrt(head_dim) when None.
            rope_scale, rope_theta: accepted: without an encoding of positions they mean nothing.

        Returns:
            ``[num_tokens, num_qo_heads, head_dim]``.
        """
        if self._tables is None:
            raise ValueError("forward() was called before begin_forward()")
        cache = unique_kv_cache[0] if isinstance(unique_kv_cache, (tuple, list)) else (
            unique_kv_cache)
        options = (q.dtype, cache.dtype, causal, sm_scale)
        if options != self._planned_for:
            self._inner.plan(*self._tables, causal=causal, sm_scale=sm_scale, q_data_type=q.dtype,
                             kv_data_type=cache.dtype)
            self._planned_for = options
        v, s = single_prefill_with_kv_cache(q, k_shared, v_shared, kv_layout=self._kv_layout,
                                            sm_scale=sm_scale, return_lse=True)
        out, lse = self._inner.run(q, unique_kv_cache, return_lse=True)
        merge_state_in_place(out, lse, v, s)
        return out

    def end_forward(self) -> None:
        """Does nothing: of the original's older interface."""
