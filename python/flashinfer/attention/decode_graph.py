# SPDX-License-Identifier: Apache-2.0
"""Decode for engines that record CUDA graphs and keep the tables in buffers of their own."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor
from .batch_decode import BatchDecodeWithPagedKVCacheWrapper


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """BatchDecodeWithPagedKVCacheWrapper with ``use_cuda_graph=True``."""

    def __init__(self, workspace_buffer: Tensor, indptr_buffer: Tensor, indices_buffer: Tensor,
                 last_page_len_buffer: Tensor, kv_layout: str = "NHD",
                 use_tensor_cores: bool = False) -> None:
        super().__init__(workspace_buffer, kv_layout, True, use_tensor_cores, indptr_buffer,
                         indices_buffer, last_page_len_buffer)


def fast_decode_plan(self, indptr: Tensor, indices: Tensor, last_page_len: Tensor,
                     num_qo_heads: int, num_kv_heads: int, head_dim: int, page_size: int,
                     pos_encoding_mode: str = "NONE", window_left: int = -1,
                     logits_soft_cap: float | None = None, q_data_type: Any = None,
                     kv_data_type: Any = None, data_type: Any = None,
                     sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                     rope_theta: float | None = None, non_blocking: bool = True,
                     fixed_split_size: int | None = None, disable_split_kv: bool = False,
                     q_len_per_req: int = 1,
                     global_override_indptr_cpu: Tensor | None = None) -> None:
    """plan() of a decode wrapper for engines that fill a graph's buffers themselves.

    The wrapper's buffers, with ``use_cuda_graph``, hold the tables already. Arguments are those of
    plan(), and:

    Args:
        self: the wrapper.
        global_override_indptr_cpu: ``indptr`` in host memory, which saves its copy.
    """
    if self._q_len_per_req is None:
        raise ValueError("fast_decode_plan() needs a prior plan() of the wrapper")
    if q_data_type is None:
        q_data_type = data_type if data_type is not None else "float16"
    self._plan_impl(indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim,
                    page_size, pos_encoding_mode=pos_encoding_mode, window_left=window_left,
                    logits_soft_cap=logits_soft_cap, q_data_type=q_data_type,
                    kv_data_type=kv_data_type, data_type=data_type, sm_scale=sm_scale,
                    rope_scale=rope_scale, rope_theta=rope_theta, non_blocking=non_blocking,
                    fixed_split_size=fixed_split_size, disable_split_kv=disable_split_kv,
                    q_len_per_req=q_len_per_req, indptr_host=global_override_indptr_cpu,
                    is_in_buffers=self._use_cuda_graph)
