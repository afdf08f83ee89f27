# SPDX-License-Identifier: Apache-2.0
"""Latent attention over a paged cache (DeepSeek-V2, 2024), after absorption of the projections."""
from __future__ import annotations

import math
from typing import Any

from .._binding import lib, made_for
from .._tensors import Tensor, dtype_name, empty
from .arguments import (
    as_numpy,
    check_graph_buffers,
    copy_into,
    even_indptr,
    host,
    is_per_head,
    number,
    on_device,
    refuse,
    workspace_address,
)
from .graph_plan import GraphPlan
from .planned import make_lse
from .record import MLA_PROBLEM, arch_of, backend_name, device_of, dtype_code, pack


class MlaWrapper:
    """What the wrappers of latent attention share: a plan, and the workspace that it borrows."""

    def __init__(self, float_workspace_buffer: Tensor, use_cuda_graph: bool) -> None:
        self._use_cuda_graph = use_cuda_graph
        self._take_workspace(float_workspace_buffer)
        self._plan = made_for(self, lib.mla_plan_make(*self._device))
        self._graph_plan = None
        self._is_planned = False

    def _take_workspace(self, float_workspace_buffer):
        if workspace_address(float_workspace_buffer) % 16:
            raise ValueError("float_workspace_buffer: is not aligned to 16 bytes")
        self._float_workspace_buffer = float_workspace_buffer
        self._device = device_of(float_workspace_buffer)
        self.device = getattr(float_workspace_buffer, "device", self._device)
        self._arch = arch_of(self._device)

    @property
    def is_cuda_graph_enabled(self) -> bool:
        """Whether index tensors are copied into buffers that a CUDA graph reads."""
        return self._use_cuda_graph

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor,
                               int_workspace_buffer: Tensor | None = None) -> None:
        """Takes another workspace, from the next plan() on; an int workspace is not needed."""
        self._take_workspace(float_workspace_buffer)

    def end_forward(self) -> None:
        """Does nothing: of the original's older interface."""

    def _plan_with(self, fields, q_data_type, tables, graph=None):
        """`tables`: qo_indptr, indptr, indices, kv_len. `graph`: the buffers of a graph that hold
        them, the most rows of q, and how many there are."""
        self._is_planned = False
        record = pack(MLA_PROBLEM, fields)
        if graph is not None and self._device[0] == 2:
            if self._graph_plan is None:
                self._graph_plan = GraphPlan(self, "mla")
            self._graph_plan.plan(record, tables, *graph)
        else:
            lib.mla_plan(self._plan, record, self._float_workspace_buffer, *tables)
        self._kept = (tables, self._float_workspace_buffer)
        self._out_dtype = dtype_name(q_data_type)
        self._is_planned = True

    def _run(self, q_nope, q_pe, ckv, kpe, out, lse, return_lse, scales):
        """`scales`: (a number, or a tensor, of ckv; a number of kpe)."""
        if not self._is_planned:
            raise ValueError("run() was called before a successful plan()")
        if out is None:
            out = empty(q_nope.shape, q_nope, self._out_dtype)
        if return_lse and lse is None:
            lse = make_lse(q_nope)
        ckv_scale, kpe_scale = scales
        plan = (self._plan if self._graph_plan is None
                else self._graph_plan.of_rows(q_nope.shape[0]))
        if isinstance(ckv_scale, float):
            lib.mla_run(plan, q_nope, q_pe, ckv, kpe, out, lse, ckv_scale, kpe_scale)
        else:
            lib.mla_run_scaled(plan, q_nope, q_pe, ckv, kpe, out, lse, ckv_scale, kpe_scale)
        return out, lse


class BatchMLAPagedAttentionWrapper(MlaWrapper):
    """Latent attention of each request's newest tokens over its paged cache: decode and chunked
    prefill.

    Args:
        float_workspace_buffer: memory for partial results of requests whose keys are split; fewer
            are split when it is small. Its device is the wrapper's. 16-byte aligned.
        use_cuda_graph: copies index tensors into the four buffers, which a graph may read.
        qo_indptr, kv_indptr: ``[num_requests + 1]`` int32, for a graph.
        kv_indices: ``[most pages]`` int32, for a graph.
        kv_len_arr: ``[num_requests]`` int32, for a graph.
        backend: ``"auto"``, ``"fa2"`` or ``"fa3"``: the fastest here. ``"cutlass"`` and others
            raise NotImplementedError.
    """

    _blackwell_auto_fallback_warned = False

    def __init__(self, float_workspace_buffer: Tensor, use_cuda_graph: bool = False,
                 qo_indptr: Tensor | None = None, kv_indptr: Tensor | None = None,
                 kv_indices: Tensor | None = None, kv_len_arr: Tensor | None = None,
                 backend: str = "auto") -> None:
        if backend_name(backend):
            raise ValueError(f"backend: is {backend!r}, accepted: auto, fa2, fa3")
        super().__init__(float_workspace_buffer, use_cuda_graph)
        self._backend = backend
        self._buffers = {"qo_indptr": qo_indptr, "kv_indptr": kv_indptr, "kv_indices": kv_indices,
                         "kv_len_arr": kv_len_arr}
        self._most_rows = 0  # of a plan so far
        if use_cuda_graph:
            check_graph_buffers(**self._buffers)

    def plan(self, qo_indptr: Tensor, kv_indptr: Tensor, kv_indices: Tensor, kv_len_arr: Tensor,
             num_heads: int, head_dim_ckv: int, head_dim_kpe: int, page_size: int, causal: bool,
             sm_scale: float | Tensor, q_data_type: Any, kv_data_type: Any,
             use_profiler: bool = False) -> None:
        """Fixes the batch for the run() calls that follow.

        Args:
            qo_indptr: ``[num_requests + 1]`` int32, not decreasing, first 0: rows of q.
            kv_indptr: ``[num_requests + 1]`` int32, likewise: pages. What is behind is not read.
            kv_indices: ``[kv_indptr[num_requests]]`` int32, on the wrapper's device.
            kv_len_arr: ``[num_requests]`` int32, at most what the request's pages hold.
            head_dim_ckv: of latents, a multiple of 8 up to 512.
            head_dim_kpe: of the part with positions, likewise, or 0.
            causal: query i sees key j iff j <= kv_len - q_len + i.
            sm_scale: not 0: it follows from the width of heads before absorption.
            q_data_type, kv_data_type: dtypes of a framework, or their names.
            use_profiler: False; else NotImplementedError.

        Raises:
            ValueError: a shape, length or size is wrong; names the argument.
            NotImplementedError: no backend takes the problem; the message has each one's reason.
        """
        refuse(use_profiler=use_profiler)
        dtype_q = dtype_code("q_data_type", q_data_type)
        fields = (dtype_q, dtype_code("kv_data_type", kv_data_type), dtype_q, num_heads,
                  head_dim_ckv, head_dim_kpe, page_size, int(causal), -1, 0, self._arch,
                  number("sm_scale", sm_scale), 0.0)
        num_requests = len(kv_len_arr)
        kv_indptr = kv_indptr[:num_requests + 1]
        graph = None
        if self._use_cuda_graph:
            given = {"qo_indptr": qo_indptr, "kv_indptr": kv_indptr, "kv_indices": kv_indices,
                     "kv_len_arr": kv_len_arr}
            for name, values in given.items():
                copy_into(name, self._buffers[name], values)
            kv_indices = self._buffers["kv_indices"]
            num_rows = int(host(qo_indptr)[-1])
            self._most_rows = max(self._most_rows, num_rows)
            sizes = (num_requests + 1, num_requests + 1, len(kv_indices), num_requests)
            graph = ([buffer[:size] for buffer, size in zip(self._buffers.values(), sizes)],
                     (self._most_rows,), num_rows)
        self._head_dim_kpe = head_dim_kpe
        self._plan_with(fields, q_data_type,
                        (qo_indptr, kv_indptr,
                         on_device(kv_indices, self._float_workspace_buffer), kv_len_arr), graph)

    begin_forward = plan

    def run(self, q_nope: Tensor, q_pe: Tensor, ckv_cache: Tensor, kpe_cache: Tensor,
            out: Tensor | None = None, lse: Tensor | None = None, return_lse: bool = False,
            profiler_buffer: Tensor | None = None, kv_len: Tensor | None = None,
            page_table: Tensor | None = None, return_lse_base_on_e: bool = False,
            o_scale: float | Tensor | None = None, *, ckv_scale: float | Tensor | None = None,
            ckv_scale_arr: Tensor | None = None,
            kpe_scale: float | Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Attention of the planned batch.

        Args:
            q_nope: ``[num_tokens, num_heads, head_dim_ckv]``.
            q_pe: ``[num_tokens, num_heads, head_dim_kpe]``; None with head_dim_kpe 0.
            ckv_cache: ``[num_pages, page_size, head_dim_ckv]``; page and token strides may be any.
            kpe_cache: ``[num_pages, page_size, head_dim_kpe]``; None with head_dim_kpe 0.
            out: as q_nope; made when None.
            lse: ``[num_tokens, num_heads]`` float32; made when wanted.
            return_lse: also returns `lse`, base-2 logarithms; -inf for a row that sees no key.
            return_lse_base_on_e: natural logarithms in place of those.
            kv_len, page_table, profiler_buffer, o_scale: None; raise NotImplementedError: they are
                of the original's ``"cutlass"`` and profiler.
            ckv_scale, kpe_scale: of a quantised cache, what stored numbers are multiplied with.
            ckv_scale_arr: in place of ckv_scale: ``[num_pages, page_size, num_blocks]`` float32.

        Returns:
            `out`, or (out, lse).
        """
        refuse(profiler_buffer=profiler_buffer, kv_len=kv_len, page_table=page_table,
               o_scale=o_scale)
        if ckv_scale_arr is not None:
            if ckv_scale is not None:
                raise ValueError("ckv_scale: is given together with ckv_scale_arr")
            scale = ckv_scale_arr
        else:
            scale = number("ckv_scale", ckv_scale)
        out, lse = self._run(q_nope, q_pe, ckv_cache, kpe_cache, out, lse,
                             return_lse or return_lse_base_on_e,
                             (scale, number("kpe_scale", kpe_scale)))
        if return_lse_base_on_e:
            lse *= math.log(2)
        return (out, lse) if return_lse or return_lse_base_on_e else out

    def run_return_lse(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """run() with ``return_lse=True``."""
        return self.run(*args, return_lse=True, **kwargs)


class BatchDecodeMlaWithPagedKVCacheWrapper(MlaWrapper):
    """Latent attention of one new token per request over a paged cache: the original's older
    interface.

    Args:
        float_workspace_buffer: as of BatchMLAPagedAttentionWrapper.
        use_cuda_graph: copies index tensors into the three buffers, which a graph may read.
        use_tensor_cores: accepted: the fastest kernel for the problem is taken either way.
    """

    def __init__(self, float_workspace_buffer: Tensor, use_cuda_graph: bool = False,
                 use_tensor_cores: bool = False, paged_kv_indptr_buffer: Tensor | None = None,
                 paged_kv_indices_buffer: Tensor | None = None,
                 paged_kv_last_page_len_buffer: Tensor | None = None) -> None:
        super().__init__(float_workspace_buffer, use_cuda_graph)
        self._use_tensor_cores = use_tensor_cores
        self._buffers = {"paged_kv_indptr_buffer": paged_kv_indptr_buffer,
                         "paged_kv_indices_buffer": paged_kv_indices_buffer,
                         "paged_kv_last_page_len_buffer": paged_kv_last_page_len_buffer}
        if use_cuda_graph:
            check_graph_buffers(**self._buffers)

    @property
    def use_tensor_cores(self) -> bool:
        """What the constructor was given."""
        return self._use_tensor_cores

    def plan(self, indptr: Tensor, indices: Tensor, last_page_len: Tensor, num_qo_heads: int,
             head_dim_compressed_kv: int, page_size: int, sm_scale: float | Tensor,
             window_left: int = -1, logits_soft_cap: float | None = None,
             data_type: Any = "float16", q_data_type: Any = None, rope_scale: float | None = None,
             rope_theta: float | None = None) -> None:
        """Fixes the batch for the run() calls that follow; the part with positions has an eighth
        of the latent's width, as in the models that have it.

        Args:
            indptr, indices, last_page_len: as of BatchDecodeWithPagedKVCacheWrapper.plan().
            head_dim_compressed_kv: of latents, a multiple of 64 up to 512.
            sm_scale: not 0.
            window_left: keys left of its own position that a query sees; -1: all.
            logits_soft_cap: scores become cap · tanh(score / cap); None or 0: none.
            data_type, q_data_type: of the cache, and of q (the cache's when None).
            rope_scale, rope_theta: 1 and 10000, or None: queries and keys come rotated.
        """
        from .arguments import as_numpy, page_lens

        if (rope_scale or 1) != 1 or (rope_theta or 1e4) != 1e4:
            refuse(rope_scale=rope_scale, rope_theta=rope_theta)
        q_data_type = data_type if q_data_type is None else q_data_type
        dtype_q = dtype_code("q_data_type", q_data_type)
        indptr_host, last_host = host(indptr), host(last_page_len)
        kv_len = page_lens(as_numpy(indptr_host), as_numpy(last_host), page_size).astype("int32")
        if self._use_cuda_graph:
            for (name, buffer), values in zip(self._buffers.items(),
                                              (indptr, indices, last_page_len)):
                copy_into(name, buffer, values)
            indices = self._buffers["paged_kv_indices_buffer"]
        fields = (dtype_q, dtype_code("data_type", data_type), dtype_q, num_qo_heads,
                  head_dim_compressed_kv, head_dim_compressed_kv // 8, page_size, 0, window_left,
                  0, self._arch, number("sm_scale", sm_scale), logits_soft_cap or 0.0)
        self._plan_with(fields, q_data_type,
                        (even_indptr(len(kv_len), 1), indptr_host,
                         on_device(indices, self._float_workspace_buffer), kv_len))

    begin_forward = plan

    def run(self, q_nope: Tensor, q_pe: Tensor, paged_ckv_cache: Tensor, paged_kpe_cache: Tensor,
            q_scale: float | Tensor | None = None, k_scale: float | Tensor | None = None,
            v_scale: float | Tensor | None = None, out: Tensor | None = None,
            lse: Tensor | None = None, return_lse: bool = False,
            enable_pdl: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Attention of the planned batch.

        Args:
            q_nope: ``[num_requests, num_qo_heads, head_dim_compressed_kv]``.
            q_pe: ``[num_requests, num_qo_heads, head_dim_compressed_kv / 8]``.
            paged_ckv_cache, paged_kpe_cache: ``[num_pages, page_size, …]`` of these widths.
            q_scale, k_scale, v_scale: None or 1; others raise NotImplementedError.
            out: as q_nope; made when None.
            lse: ``[num_requests, num_qo_heads]`` float32; made when wanted.
            return_lse: also returns `lse`, base-2 logarithms.
            enable_pdl: accepted; launches overlap where the GPU allows it.

        Returns:
            `out`, or (out, lse).
        """
        for name, scale in (("q_scale", q_scale), ("k_scale", k_scale), ("v_scale", v_scale)):
            if is_per_head(scale) or number(name, scale) != 1:
                refuse(**{name: scale})
        out, lse = self._run(q_nope, q_pe, paged_ckv_cache, paged_kpe_cache, out, lse, return_lse,
                             (1.0, 1.0))
        return (out, lse) if return_lse else out

    def run_return_lse(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """run() with ``return_lse=True``."""
        return self.run(*args, return_lse=True, **kwargs)
