# SPDX-License-Identifier: Apache-2.0
"""Attention of batches that mix prefill and decode, and of those with attention sinks."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor, empty
from ..jit.attention.variants import attention_sink_decl
from .arguments import as_numpy, number, on_device, refuse, unpack_cache
from .batch_prefill import BatchPrefillWithPagedKVCacheWrapper
from .planned import PlannedWrapper, make_lse, scales_and_tensors
from .record import MASK_CAUSAL, MASK_NONE
from .variant import Variant


class _NoWorkspace:
    """Stands for a workspace of the library's own, on a device."""

    def __init__(self, device):
        self.device = device
        self.is_cuda = str(device).startswith("cuda")
        self._index = None if isinstance(device, str) else getattr(device, "index", None)

    def get_device(self):
        if self._index is not None:
            return self._index
        _, _, index = str(self.device).partition(":")
        if index:
            return int(index)
        import torch

        return torch.cuda.current_device()


class BatchAttention(PlannedWrapper):
    """Attention of each request's newest tokens, few or many, over its paged KV cache.

    Args:
        kv_layout: of pages, ``"NHD"`` or ``"HND"``.
        device: ``"cuda"``, ``"cuda:1"``, ``"cpu"``, or a framework's device. The workspace is the
            library's.
    """

    def __init__(self, kv_layout: str = "NHD", device: str = "cuda") -> None:
        super().__init__(_NoWorkspace(device), kv_layout)
        self._workspace = self._float_workspace_buffer
        self._float_workspace_buffer = None

    def plan(self, qo_indptr: Tensor, kv_indptr: Tensor, kv_indices: Tensor, kv_len_arr: Tensor,
             num_qo_heads: int, num_kv_heads: int, head_dim_qk: int, head_dim_vo: int,
             page_size: int, causal: bool = False, sm_scale: float | Tensor | None = None,
             logits_soft_cap: float | None = None, q_data_type: Any = "bfloat16",
             kv_data_type: Any = "bfloat16", use_profiler: bool = False) -> None:
        """Fixes the batch for the run() calls that follow.

        Args:
            qo_indptr: ``[num_requests + 1]`` int32, not decreasing, first 0: rows of q.
            kv_indptr: ``[num_requests + 1]`` int32, likewise: pages.
            kv_indices: ``[kv_indptr[-1]]`` int32.
            kv_len_arr: ``[num_requests]`` int32: keys of each request; with them its pages are
                full but for the last one.
            use_profiler: False; else NotImplementedError.

        The others are as of BatchPrefillWithPagedKVCacheWrapper.plan().
        """
        import numpy

        refuse(use_profiler=use_profiler)
        kv_indptr = as_numpy(kv_indptr)
        pages = numpy.diff(kv_indptr)
        lens = as_numpy(kv_len_arr)
        last = lens - (pages - 1) * page_size
        wrong = (last < 1) | (last > page_size)
        if lens.shape != pages.shape or (wrong & ~((pages == 0) & (lens == 0))).any():
            raise ValueError(f"kv_len_arr: is {lens}, expected lengths that fill {pages} pages of "
                             f"{page_size} but for the last one")
        fields = self._problem(
            q_data_type, kv_data_type, None, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo,
            page_size, MASK_CAUSAL if causal else MASK_NONE, 0, "NONE", -1, logits_soft_cap,
            sm_scale, None, None)
        self._plan_with(fields, qo_indptr, kv_indptr, on_device(kv_indices, self._workspace),
                        numpy.clip(last, 0, None).astype(numpy.int32))

    def run(self, q: Tensor, kv_cache: Tensor | tuple[Tensor, Tensor], out: Tensor | None = None,
            lse: Tensor | None = None, k_scale: float | Tensor | None = None,
            v_scale: float | Tensor | None = None, logits_soft_cap: float = 0.0,
            profiler_buffer: Tensor | None = None,
            kv_cache_sf: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Attention of the planned batch.

        Args:
            q: ``[num_tokens, num_qo_heads, head_dim_qk]``.
            kv_cache: as of BatchPrefillWithPagedKVCacheWrapper.run().
            out: ``[num_tokens, num_qo_heads, head_dim_vo]``; made when None.
            lse: ``[num_tokens, num_qo_heads]`` float32; made when None.
            k_scale, v_scale: what stored values are multiplied with: a number, a tensor of one, or
                one per head.
            logits_soft_cap: 0: the plan's; else it must be the plan's.
            profiler_buffer, kv_cache_sf: None; raise NotImplementedError.

        Returns:
            (out, lse), the latter base-2 logarithms.
        """
        refuse(profiler_buffer=profiler_buffer, kv_cache_sf=kv_cache_sf)
        if self._record is None:
            raise ValueError("run() was called before a successful plan()")
        if logits_soft_cap and number("logits_soft_cap", logits_soft_cap) != (
                self._fields["logits_soft_cap"]):
            raise ValueError(f"logits_soft_cap: is {logits_soft_cap}, but plan() was given "
                             f"{self._fields['logits_soft_cap']}")
        k, v = unpack_cache(kv_cache)
        if out is None:
            out = empty((*q.shape[:-1], self._fields["head_dim_vo"]), q, self._out_dtype)
        if lse is None:
            lse = make_lse(q)
        self._run(q, k, v, out, lse, *scales_and_tensors(None, k_scale, v_scale))
        return out, lse


class BatchAttentionWithAttentionSinkWrapper(BatchPrefillWithPagedKVCacheWrapper):
    """BatchPrefillWithPagedKVCacheWrapper whose softmax has a logit per head more, as a value or
    less. ``run(q, paged_kv_cache, sink, sm_scale)``: ``sink`` ``[num_qo_heads]`` float32.

    Args:
        pos_encoding_mode: ``"NONE"``.
        use_fp16_qk_reduction: accepted: scores are always summed in float32.
        q_data_type, kv_data_type, head_dim_qk, head_dim_vo, window_left: what plan() has to be
            given.

    The others are as of the base class.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD",
                 use_cuda_graph: bool = False, qo_indptr_buf: Tensor | None = None,
                 paged_kv_indptr_buf: Tensor | None = None,
                 paged_kv_indices_buf: Tensor | None = None,
                 paged_kv_last_page_len_buf: Tensor | None = None,
                 custom_mask_buf: Tensor | None = None, mask_indptr_buf: Tensor | None = None,
                 backend: str = "auto", pos_encoding_mode: str = "NONE",
                 use_fp16_qk_reduction: bool = False, q_data_type: Any = "bfloat16",
                 kv_data_type: Any = "bfloat16", head_dim_qk: int = 128, head_dim_vo: int = 128,
                 window_left: int = -1) -> None:
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, qo_indptr_buf,
                         paged_kv_indptr_buf, paged_kv_indices_buf, paged_kv_last_page_len_buf,
                         custom_mask_buf, mask_indptr_buf, backend)
        self._variant = Variant("AttentionSink", attention_sink_decl["fa2"], ("sink",), ("float",),
                                ("sm_scale",), ("double",))
        self._promised = {"q_data_type": q_data_type, "kv_data_type": kv_data_type,
                          "head_dim_qk": head_dim_qk, "head_dim_vo": head_dim_vo,
                          "window_left": window_left, "pos_encoding_mode": pos_encoding_mode}

    def _make_problem(self, *key):
        from .._tensors import dtype_name

        given = {"q_data_type": key[0], "kv_data_type": key[0] if key[1] is None else key[1],
                 "head_dim_qk": key[5], "head_dim_vo": key[5] if key[6] is None else key[6],
                 "pos_encoding_mode": key[10], "window_left": key[11]}
        for name, value in self._promised.items():
            found = given[name]
            if name.endswith("data_type"):
                value, found = dtype_name(value), dtype_name(found)
            if found != value:
                raise ValueError(f"{name}: is {found}, the wrapper was made for {value}")
        return super()._make_problem(*key)
