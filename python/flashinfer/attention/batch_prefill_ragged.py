# SPDX-License-Identifier: Apache-2.0
"""Attention of several new tokens per request over keys that lie one after another."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor
from ..jit.attention import gen_customize_batch_prefill_module
from .arguments import (
    as_numpy,
    check_graph_buffers,
    check_lens,
    check_most,
    copy_into,
    host,
    refuse,
)
from .batch_prefill import diff
from .planned import PlannedWrapper, make_lse
from .prefill_mask import batch_mask
from .record import split_tokens
from .variant import variant_of


class BatchPrefillWithRaggedKVCacheWrapper(PlannedWrapper):
    """Attention of each request's newest tokens over its keys, where those of all requests lie one
    after another without pages.

    Args:
        float_workspace_buffer: memory for partial results of requests whose keys are split; fewer
            are split when it is small. Its device is the wrapper's. 16-byte aligned.
        kv_layout: of k and v, ``"NHD"`` [num_keys, num_kv_heads, head_dim], or ``"HND"``.
        use_cuda_graph: copies index tensors and masks into the buffers, which a graph may read.
            The first plan() has the most query tokens.
        qo_indptr_buf, kv_indptr_buf: ``[num_requests + 1]`` int32, for a graph.
        custom_mask_buf: ``[most bytes]`` uint8, for a graph with masks.
        mask_indptr_buf: ``[num_requests + 1]`` int32, for a graph with masks.
        backend: ``"auto"``, ``"fa2"`` and ``"fa3"`` mean the fastest here; or ``"cpu"``,
            ``"cuda"`` or a candidate such as ``"cuda.mma"``.
        jit_args, jit_kwargs: what gen_customize_batch_prefill_module() takes behind `backend`: a
            variant of attention in CUDA C++. run() then takes its tensors and its scalars behind v.
            On CUDA devices; that of attention sinks everywhere.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD",
                 use_cuda_graph: bool = False, qo_indptr_buf: Tensor | None = None,
                 kv_indptr_buf: Tensor | None = None, custom_mask_buf: Tensor | None = None,
                 mask_indptr_buf: Tensor | None = None, backend: str = "auto", jit_args: Any = None,
                 jit_kwargs: Any = None) -> None:
        super().__init__(
            float_workspace_buffer, kv_layout, backend,
            variant_of(jit_args, jit_kwargs, gen_customize_batch_prefill_module, backend))
        if use_cuda_graph:
            check_graph_buffers(qo_indptr_buf=qo_indptr_buf, kv_indptr_buf=kv_indptr_buf)
            self._fixed_batch_size = len(qo_indptr_buf) - 1
        else:
            self._fixed_batch_size = 0
        self._use_cuda_graph = use_cuda_graph
        self._qo_indptr_buf = qo_indptr_buf
        self._kv_indptr_buf = kv_indptr_buf
        self._custom_mask_buf = custom_mask_buf
        self._mask_indptr_buf = mask_indptr_buf
        self._max_total_num_rows = None
        self._max_keys = 0  # of any plan() for a graph: a larger one changes no address

    def plan(self, qo_indptr: Tensor, kv_indptr: Tensor, num_qo_heads: int, num_kv_heads: int,
             head_dim_qk: int, head_dim_vo: int | None = None, custom_mask: Tensor | None = None,
             packed_custom_mask: Tensor | None = None, causal: bool = False,
             pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
             window_left: int = -1, logits_soft_cap: float | None = None,
             sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
             rope_theta: float | None = None, q_data_type: Any = "float16",
             kv_data_type: Any = None, o_data_type: Any = None, non_blocking: bool = True,
             prefix_len_ptr: Tensor | None = None, token_pos_in_items_ptr: Tensor | None = None,
             token_pos_in_items_len: int = 0, max_item_len_ptr: Tensor | None = None,
             fixed_split_size: int | None = None, disable_split_kv: bool = False,
             seq_lens: Tensor | None = None, seq_lens_q: Tensor | None = None,
             max_token_per_sequence: int | None = None, max_sequence_kv: int | None = None,
             v_indptr: Tensor | None = None, o_indptr: Tensor | None = None) -> None:
        """Fixes the batch for the run() calls that follow.

        Arguments are those of BatchPrefillWithPagedKVCacheWrapper.plan(), but:

        Args:
            qo_indptr: ``[num_requests + 1]`` int32, not decreasing, first 0: rows of q.
            kv_indptr: ``[num_requests + 1]`` int32, likewise: rows of k and v.
            fixed_split_size: keys are split every so many (rounded up to 64), whatever else is in
                the batch.
            v_indptr, o_indptr: None; raise NotImplementedError.
        """
        refuse(v_indptr=v_indptr, o_indptr=o_indptr)
        rows, keys = qo_indptr, kv_indptr
        if self._use_cuda_graph or not (seq_lens_q is max_token_per_sequence is None):
            rows = host(rows)
        elif seq_lens is max_sequence_kv is None:
            self._begin_plan(rows, keys, None)
        if self._use_cuda_graph or not (seq_lens is max_sequence_kv is None):
            keys = host(keys)
        for name, given, indptr in (("seq_lens", seq_lens, keys),
                                    ("seq_lens_q", seq_lens_q, rows)):
            if given is not None:
                check_lens(name, given, diff(indptr))
        for name, given, indptr in (("max_token_per_sequence", max_token_per_sequence, rows),
                                    ("max_sequence_kv", max_sequence_kv, keys)):
            if given is not None:
                check_most(name, given, diff(indptr))
        mask_mode, mask, prefix_len = batch_mask(
            lambda: diff(rows), lambda: diff(keys), causal=causal, custom_mask=custom_mask,
            packed_custom_mask=packed_custom_mask, prefix_len_ptr=prefix_len_ptr,
            token_pos_in_items_ptr=token_pos_in_items_ptr,
            token_pos_in_items_len=token_pos_in_items_len,
            buffers=(self._custom_mask_buf, self._mask_indptr_buf) if self._use_cuda_graph else
            None, device_like=self._float_workspace_buffer)
        fields = self._problem(
            q_data_type, kv_data_type, o_data_type, num_qo_heads, num_kv_heads, head_dim_qk,
            head_dim_vo, 0, mask_mode, split_tokens(fixed_split_size, disable_split_kv, 1),
            pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta)
        graph = None
        if self._use_cuda_graph:
            num_rows = int(rows[-1])
            self._fill_buffers(qo_indptr, kv_indptr, num_rows)
            self._max_keys = max(self._max_keys, int(keys[-1]))
            graph = ((self._qo_indptr_buf, self._kv_indptr_buf[:self._fixed_batch_size + 1], None,
                      None), (self._max_total_num_rows, self._max_keys), num_rows)
        else:
            self._qo_indptr_buf = qo_indptr
            self._kv_indptr_buf = kv_indptr
        self._plan_with(fields, rows, keys, None, None, mask, prefix_len, graph)

    begin_forward = plan

    def _fill_buffers(self, qo_indptr, kv_indptr, num_rows):
        if len(qo_indptr) - 1 != self._fixed_batch_size:
            raise ValueError(f"qo_indptr: has {len(qo_indptr) - 1} requests, the buffers of the "
                             f"graph are for {self._fixed_batch_size}")
        if self._max_total_num_rows is None:
            self._max_total_num_rows = num_rows
        if num_rows > self._max_total_num_rows:
            raise ValueError(f"qo_indptr: ends at {num_rows}, at the first plan() with "
                             f"use_cuda_graph it was {self._max_total_num_rows}: the most")
        copy_into("qo_indptr_buf", self._qo_indptr_buf, qo_indptr)
        copy_into("kv_indptr_buf", self._kv_indptr_buf, kv_indptr)

    def run(self, q: Tensor, k: Tensor, v: Tensor, *args: Any,
            q_scale: float | Tensor | None = None, k_scale: float | Tensor | None = None,
            v_scale: float | Tensor | None = None, o_scale: float | Tensor | None = None,
            out: Tensor | None = None, lse: Tensor | None = None, return_lse: bool = False,
            enable_pdl: bool | None = None,
            kv_cache_sf: tuple[Tensor, Tensor] | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Attention of the planned batch.

        Args:
            q: ``[num_tokens, num_qo_heads, head_dim_qk]``, num_tokens being ``qo_indptr[-1]``.
            k: ``[num_keys, num_kv_heads, head_dim_qk]`` (HND: the first two the other way round),
                num_keys at least ``kv_indptr[-1]``; any strides but for a dense last dimension.
            v: likewise of head_dim_vo.
            args: for quantised inputs, scales of q ``[num_qo_heads]``, of k and of v
                ``[num_kv_heads]``, float32. Of a variant: its tensors, its scalars.
            q_scale, k_scale, v_scale: what stored values are multiplied with: a number, a tensor
                of one, or one per head.
            o_scale: None; raises NotImplementedError.
            out: ``[num_tokens, num_qo_heads, head_dim_vo]``; made when None.
            lse: ``[num_tokens, num_qo_heads]`` float32; made when wanted.
            return_lse: also returns `lse`, base-2 logarithms; -inf for a row that sees no key.
            enable_pdl: accepted; launches overlap where the GPU allows it.
            kv_cache_sf: None; raises NotImplementedError.

        Returns:
            `out`, or (out, lse).
        """
        if not o_scale is kv_cache_sf is None:
            refuse(o_scale=o_scale, kv_cache_sf=kv_cache_sf)
        if out is None:
            out = self._make_out(q)
        if return_lse and lse is None:
            lse = make_lse(q)
        if q_scale is k_scale is v_scale is self._variant is None and not args:
            self._run(q, k, v, out, lse)
        else:
            self._run_with(q, k, v, out, lse, (q_scale, k_scale, v_scale), args)
        return (out, lse) if return_lse else out

    def forward(self, q: Tensor, k: Tensor, v: Tensor, causal: bool = False,
                pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
                window_left: int = -1, logits_soft_cap: float | None = None,
                sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                rope_theta: float | None = None) -> Tensor:
        """run() under these options in place of the plan's: of the original's older interface.
        Where they differ the batch is planned again."""
        self._change_to(causal, pos_encoding_mode, window_left, logits_soft_cap, sm_scale,
                        rope_scale, rope_theta)
        return self.run(q, k, v)

    def forward_return_lse(self, q: Tensor, k: Tensor, v: Tensor, causal: bool = False,
                           pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
                           window_left: int = -1, logits_soft_cap: float | None = None,
                           sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                           rope_theta: float | None = None) -> tuple[Tensor, Tensor]:
        """forward() that returns (out, lse)."""
        self._change_to(causal, pos_encoding_mode, window_left, logits_soft_cap, sm_scale,
                        rope_scale, rope_theta)
        return self.run(q, k, v, return_lse=True)
