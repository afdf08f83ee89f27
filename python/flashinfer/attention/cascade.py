# SPDX-License-Identifier: Apache-2.0
"""Attention of batches whose requests begin with the same tokens (Ye et al., 2024)."""
from __future__ import annotations

from typing import Any

from .._binding import lib, made_for
from .._tensors import Tensor, dtype_name, empty
from .arguments import copy_into, on_device, unpack_cache
from .planned import options, workspace_address
from .record import (
    MASK_CAUSAL,
    MASK_NONE,
    PROBLEM,
    device_of,
    dtype_code,
    layout_code,
    pack,
)


class MultiLevelCascadeAttentionWrapper:
    """Attention where each query attends to the keys of its group at every level, which are read
    once a group: the first level may be one group of all queries over a system prompt, the last
    one group a request.

    Args:
        num_levels: at least 1.
        float_workspace_buffer: memory for the states of levels and for partial results.
        kv_layout: ``"NHD"`` or ``"HND"``.
        use_cuda_graph: copies index tensors into the buffers, which a graph may read.
        qo_indptr_buf_arr, paged_kv_indptr_buf_arr, paged_kv_indices_buf_arr,
            paged_kv_last_page_len_buf_arr: for a graph, one tensor a level.
    """

    def __init__(self, num_levels: int, float_workspace_buffer: Tensor, kv_layout: str = "NHD",
                 use_cuda_graph: bool = False, qo_indptr_buf_arr: list[Tensor] | None = None,
                 paged_kv_indptr_buf_arr: list[Tensor] | None = None,
                 paged_kv_indices_buf_arr: list[Tensor] | None = None,
                 paged_kv_last_page_len_buf_arr: list[Tensor] | None = None) -> None:
        if num_levels < 1:
            raise ValueError(f"num_levels: is {num_levels}, expected 1 or more")
        self._num_levels = num_levels
        self._layout = layout_code(kv_layout)
        self._kv_layout = kv_layout
        self._use_cuda_graph = use_cuda_graph
        self._buffers = (qo_indptr_buf_arr, paged_kv_indptr_buf_arr, paged_kv_indices_buf_arr,
                         paged_kv_last_page_len_buf_arr)
        if use_cuda_graph:
            for name, buffers in zip(("qo_indptr_buf_arr", "paged_kv_indptr_buf_arr",
                                      "paged_kv_indices_buf_arr",
                                      "paged_kv_last_page_len_buf_arr"), self._buffers):
                if buffers is None or len(buffers) != num_levels:
                    raise ValueError(f"{name}: expected {num_levels} tensors with use_cuda_graph")
        self._take_workspace(float_workspace_buffer)
        self._plan = made_for(self, lib.cascade_plan_make(*self._device))
        self._is_planned = False

    def _take_workspace(self, float_workspace_buffer):
        if workspace_address(float_workspace_buffer) % 16:
            raise ValueError("float_workspace_buffer: is not aligned to 16 bytes")
        self._float_workspace_buffer = float_workspace_buffer
        self._device = device_of(float_workspace_buffer)

    @property
    def is_cuda_graph_enabled(self) -> bool:
        """Whether index tensors are copied into buffers that a CUDA graph reads."""
        return self._use_cuda_graph

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor,
                               int_workspace_buffers: list[Tensor] | None = None) -> None:
        """Takes another workspace, from the next plan() on; int workspaces are not needed."""
        self._take_workspace(float_workspace_buffer)

    def plan(self, qo_indptr_arr: list[Tensor], paged_kv_indptr_arr: list[Tensor],
             paged_kv_indices_arr: list[Tensor], paged_kv_last_page_len: Tensor, num_qo_heads: int,
             num_kv_heads: int, head_dim: int, page_size: int, causal: bool = False,
             pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
             sm_scale: float | Tensor | None = None, window_left: int = -1,
             logits_soft_cap: float | None = None, rope_scale: float | None = None,
             rope_theta: float | None = None, q_data_type: Any = "float16",
             kv_data_type: Any = None) -> None:
        """Fixes the batch for the run() calls that follow. Each of the first four arguments is a
        list of one tensor a level.

        Args:
            qo_indptr_arr: ``[num_groups + 1]`` int32: rows of q; all levels end at the same row.
            paged_kv_indptr_arr: ``[num_groups + 1]`` int32: pages.
            paged_kv_indices_arr: ``[indptr[-1]]`` int32, on the wrapper's device.
            paged_kv_last_page_len: ``[num_groups]`` int32, each in 1..page_size.
            causal: at the last level, whose keys end with those of the queries.
            pos_encoding_mode, window_left: ``"NONE"`` and -1: positions cannot be split over
                levels. Others raise ValueError.
            use_fp16_qk_reduction: accepted: scores are always summed in float32.

        Raises:
            ValueError: a shape, length or size is wrong; names the argument.
            NotImplementedError: no backend takes the problem; the message has each one's reason.
        """
        lists = {"qo_indptr_arr": qo_indptr_arr, "paged_kv_indptr_arr": paged_kv_indptr_arr,
                 "paged_kv_indices_arr": paged_kv_indices_arr,
                 "paged_kv_last_page_len": paged_kv_last_page_len}
        for name, given in lists.items():
            if len(given) != self._num_levels:
                raise ValueError(f"{name}: has {len(given)} levels, expected {self._num_levels}")
        o = options(pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale,
                    rope_theta)
        dtype_q = dtype_code("q_data_type", q_data_type)
        dtype_kv = dtype_q if kv_data_type is None else dtype_code("kv_data_type", kv_data_type)
        record = pack(PROBLEM, (
            dtype_q, dtype_kv, dtype_q, num_qo_heads, num_kv_heads, head_dim, head_dim, page_size,
            self._layout, MASK_CAUSAL if causal else MASK_NONE, o["window_left"],
            o["pos_encoding"], 0, o["sm_scale"], o["logits_soft_cap"],
            o["rope_scale"], o["rope_theta"]))
        tables = []
        for level in range(self._num_levels):
            given = [arr[level] for arr in lists.values()]
            if self._use_cuda_graph:
                for name, arr, values in zip(lists, self._buffers, given):
                    copy_into(name.replace("_arr", "") + "_buf_arr", arr[level], values)
                given[2] = self._buffers[2][level]
            tables += [given[0], given[1], on_device(given[2], self._float_workspace_buffer),
                       given[3]]
        self._is_planned = False
        lib.cascade_plan(self._plan, record, self._float_workspace_buffer, tables)
        self._kept = (tables, self._float_workspace_buffer)
        self._out_dtype = dtype_name(q_data_type)
        self._is_planned = True

    begin_forward = plan

    def run(self, q: Tensor, paged_kv_cache: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """Attention of the planned batch.

        Args:
            q: ``[num_tokens, num_qo_heads, head_dim]``.
            paged_kv_cache: as of BatchPrefillWithPagedKVCacheWrapper.run().

        Returns:
            ``[num_tokens, num_qo_heads, head_dim]`` of q's dtype.
        """
        if not self._is_planned:
            raise ValueError("run() was called before a successful plan()")
        k, v = unpack_cache(paged_kv_cache)
        out = empty(q.shape, q)
        lib.cascade_run(self._plan, q, k, v, out, None)
        return out

    forward = run

    def end_forward(self) -> None:
        """Does nothing: of the original's older interface."""
