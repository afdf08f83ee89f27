# SPDX-License-Identifier: Apache-2.0
"""Attention of several new tokens per request over a paged KV cache."""
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
    like,
    on_device,
    page_lens,
    refuse,
    unpack_cache,
)
from .planned import PlannedWrapper, make_lse
from .prefill_mask import batch_mask
from .record import MASK_NONE, split_tokens
from .variant import variant_of


def diff(indptr: Tensor) -> Any:
    import numpy

    return numpy.diff(as_numpy(indptr))


def rows_of_elements(qo_indptr: Tensor, row_size: int) -> Any:
    """Rows of q for where requests begin in elements."""
    elements = as_numpy(qo_indptr)
    if (elements % row_size).any():
        raise ValueError(f"qo_indptr: is {elements}, expected multiples of {row_size}, the elements "
                         "of a row of q, with the backend cudnn")
    return like(elements // row_size, qo_indptr)


class BatchPrefillWithPagedKVCacheWrapper(PlannedWrapper):
    """Attention of each request's newest tokens over its paged KV cache, which already holds them:
    prefill, append, chunked prefill.

    plan() decides how to share the work: call it when the batch changes, not per layer. run() only
    runs. Tensors in host memory take the CPU backend, those on a CUDA device the GPU's.

    Args:
        float_workspace_buffer: memory for partial results of requests whose keys are split; fewer
            are split when it is small. Its device is the wrapper's. 16-byte aligned.
        kv_layout: of pages, ``"NHD"`` [page_size, num_kv_heads, head_dim], or ``"HND"``.
        use_cuda_graph: copies index tensors and masks into the buffers, which a graph may read.
            The first plan() has the most query tokens.
        qo_indptr_buf, paged_kv_indptr_buf: ``[num_requests + 1]`` int32, for a graph.
        paged_kv_indices_buf: ``[most pages]`` int32, for a graph.
        paged_kv_last_page_len_buf: ``[num_requests]`` int32, for a graph.
        custom_mask_buf: ``[most bytes]`` uint8, for a graph with masks.
        mask_indptr_buf: ``[num_requests + 1]`` int32, for a graph with masks.
        backend: ``"auto"``, ``"fa2"`` and ``"fa3"`` mean the fastest here; or ``"cpu"``,
            ``"cuda"`` or a candidate such as ``"cuda.mma"``. ``"cudnn"`` is the fastest here, too,
            with tables and caches as that library has them: plan() takes qo_indptr in elements of
            q and needs seq_lens and seq_lens_q, pages are [num_kv_heads, page_size, head_dim].
        jit_args, jit_kwargs: what gen_customize_batch_prefill_module() takes behind `backend`: a
            variant of attention in CUDA C++. run() then takes its tensors and its scalars behind
            the cache. On CUDA devices; that of attention sinks everywhere.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD",
                 use_cuda_graph: bool = False, qo_indptr_buf: Tensor | None = None,
                 paged_kv_indptr_buf: Tensor | None = None,
                 paged_kv_indices_buf: Tensor | None = None,
                 paged_kv_last_page_len_buf: Tensor | None = None,
                 custom_mask_buf: Tensor | None = None, mask_indptr_buf: Tensor | None = None,
                 backend: str = "auto", jit_args: Any = None, jit_kwargs: Any = None) -> None:
        is_cudnn = backend == "cudnn"
        super().__init__(
            float_workspace_buffer, "HND" if is_cudnn else kv_layout,
            "auto" if is_cudnn else backend, variant_of(jit_args, jit_kwargs,
                                                        gen_customize_batch_prefill_module, backend))
        self._is_cudnn = is_cudnn
        if use_cuda_graph:
            check_graph_buffers(qo_indptr_buf=qo_indptr_buf,
                                paged_kv_indptr_buf=paged_kv_indptr_buf,
                                paged_kv_indices_buf=paged_kv_indices_buf,
                                paged_kv_last_page_len_buf=paged_kv_last_page_len_buf)
            self._fixed_batch_size = len(qo_indptr_buf) - 1
        else:
            self._fixed_batch_size = 0
        self._use_cuda_graph = use_cuda_graph
        self._qo_indptr_buf = qo_indptr_buf
        self._paged_kv_indptr_buf = paged_kv_indptr_buf
        self._paged_kv_indices_buf = paged_kv_indices_buf
        self._paged_kv_last_page_len_buf = paged_kv_last_page_len_buf
        self._custom_mask_buf = custom_mask_buf
        self._mask_indptr_buf = mask_indptr_buf
        self._max_total_num_rows = None

    def plan(self, qo_indptr: Tensor, paged_kv_indptr: Tensor, paged_kv_indices: Tensor,
             paged_kv_last_page_len: Tensor, num_qo_heads: int, num_kv_heads: int, head_dim_qk: int,
             page_size: int, head_dim_vo: int | None = None, custom_mask: Tensor | None = None,
             packed_custom_mask: Tensor | None = None, causal: bool = False,
             pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
             sm_scale: float | Tensor | None = None, window_left: int = -1,
             logits_soft_cap: float | None = None, rope_scale: float | None = None,
             rope_theta: float | None = None, q_data_type: Any = "float16",
             kv_data_type: Any = None, o_data_type: Any = None, non_blocking: bool = True,
             prefix_len_ptr: Tensor | None = None, token_pos_in_items_ptr: Tensor | None = None,
             token_pos_in_items_len: int = 0, max_item_len_ptr: Tensor | None = None,
             seq_lens: Tensor | None = None, seq_lens_q: Tensor | None = None,
             block_tables: Tensor | None = None, max_token_per_sequence: int | None = None,
             max_sequence_kv: int | None = None, fixed_split_size: int | None = None,
             disable_split_kv: bool = False) -> None:
        """Fixes the batch for the run() calls that follow.

        Index tensors but for the indices are read here; where they are on a device it is waited
        for, once. A plan for a graph waits for qo_indptr alone.

        Args:
            qo_indptr: ``[num_requests + 1]`` int32, not decreasing, first 0: rows of q.
            paged_kv_indptr: ``[num_requests + 1]`` int32, likewise: pages.
            paged_kv_indices: ``[paged_kv_indptr[-1]]`` int32, on the wrapper's device.
            paged_kv_last_page_len: ``[num_requests]`` int32, each in 1..page_size.
            num_qo_heads: a multiple of `num_kv_heads`.
            head_dim_qk, head_dim_vo: multiples of 8 up to 512; the latter is the former when None.
            custom_mask: ``[sum of q_len · kv_len]`` bool, requests one after another, each
                row-major; replaces `causal`.
            packed_custom_mask: the same in bits, lowest first, each request from a byte on.
            causal: query i sees key j iff j <= kv_len - q_len + i.
            pos_encoding_mode: ``"NONE"``, ``"ROPE_LLAMA"`` or ``"ALIBI"``.
            use_fp16_qk_reduction: accepted: scores are always summed in float32.
            sm_scale: 1 / sqrt(head_dim_qk) when None.
            window_left: keys left of its own position that a query sees; -1: all.
            logits_soft_cap: scores become cap · tanh(score / cap); None or 0: none.
            rope_scale, rope_theta: 1 and 10000 when None.
            q_data_type, kv_data_type, o_data_type: dtypes of a framework or their names; the last
                two are q's when None.
            non_blocking: accepted; copies order themselves with the stream.
            prefix_len_ptr: ``[num_requests]``: tokens that several items share. Given, tokens
                behind them see these and their own item, causal.
            token_pos_in_items_ptr: ``[num_requests · token_pos_in_items_len]``: each token's place
                in its item, from 1; 0 for a delimiter.
            max_item_len_ptr: accepted: follows from the places.
            seq_lens, seq_lens_q: ``[num_requests]``: compared with the lengths of the tables.
            block_tables: accepted: the same pages once more.
            max_token_per_sequence, max_sequence_kv: compared with the largest lengths.
            fixed_split_size: keys are split every so many pages (rounded up to 64 tokens),
                whatever else is in the batch, so that results do not depend on it.
            disable_split_kv: keys are not split.

        Raises:
            ValueError: a shape, length or size is wrong; names the argument.
            NotImplementedError: no backend takes the problem; the message has each one's reason.
        """
        if self._is_cudnn:
            if seq_lens is None or seq_lens_q is None:
                raise ValueError("seq_lens, seq_lens_q: must be given with the backend cudnn")
            qo_indptr = rows_of_elements(qo_indptr, num_qo_heads * head_dim_qk)
        rows, pages, last = qo_indptr, paged_kv_indptr, paged_kv_last_page_len
        if self._use_cuda_graph or not (seq_lens is seq_lens_q is max_token_per_sequence
                                        is max_sequence_kv is None):
            rows = host(rows)
        elif seq_lens is max_sequence_kv is None:
            self._begin_plan(rows, pages, None if page_size == 1 else last)
        if not (seq_lens is max_sequence_kv is None):
            pages, last = host(pages), host(last)

        def kv_lens():
            return page_lens(as_numpy(pages), as_numpy(last), page_size)

        for name, given, compute in (("seq_lens", seq_lens, kv_lens),
                                     ("seq_lens_q", seq_lens_q, lambda: diff(rows))):
            if given is not None:
                check_lens(name, given, compute())
        if max_token_per_sequence is not None:
            check_most("max_token_per_sequence", max_token_per_sequence, diff(rows))
        if max_sequence_kv is not None:
            check_most("max_sequence_kv", max_sequence_kv, kv_lens())
        mask_mode, mask, prefix_len = batch_mask(
            lambda: diff(rows), kv_lens, causal=causal, custom_mask=custom_mask,
            packed_custom_mask=packed_custom_mask, prefix_len_ptr=prefix_len_ptr,
            token_pos_in_items_ptr=token_pos_in_items_ptr,
            token_pos_in_items_len=token_pos_in_items_len,
            buffers=(self._custom_mask_buf, self._mask_indptr_buf) if self._use_cuda_graph else
            None, device_like=self._float_workspace_buffer)
        fields = self._problem(
            q_data_type, kv_data_type, o_data_type, num_qo_heads, num_kv_heads, head_dim_qk,
            head_dim_vo, page_size, mask_mode,
            split_tokens(fixed_split_size, disable_split_kv, page_size), pos_encoding_mode,
            window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta)
        graph = None
        if self._use_cuda_graph:
            num_rows = int(rows[-1])
            self._fill_buffers(qo_indptr, paged_kv_indptr, paged_kv_indices,
                               paged_kv_last_page_len, num_rows)
            n = self._fixed_batch_size
            graph = ((self._qo_indptr_buf, self._paged_kv_indptr_buf[:n + 1],
                      self._paged_kv_indices_buf, self._paged_kv_last_page_len_buf[:n]),
                     (self._max_total_num_rows, 0), num_rows)
        else:
            self._qo_indptr_buf = qo_indptr
            self._paged_kv_indptr_buf = paged_kv_indptr
            self._paged_kv_indices_buf = on_device(paged_kv_indices, self._float_workspace_buffer)
            self._paged_kv_last_page_len_buf = paged_kv_last_page_len
        self._plan_with(fields, rows, pages, self._paged_kv_indices_buf, last, mask, prefix_len,
                        graph)

    begin_forward = plan

    def _fill_buffers(self, qo_indptr, kv_indptr, kv_indices, last_page_len, num_rows):
        if len(qo_indptr) - 1 != self._fixed_batch_size:
            raise ValueError(f"qo_indptr: has {len(qo_indptr) - 1} requests, the buffers of the "
                             f"graph are for {self._fixed_batch_size}")
        if self._max_total_num_rows is None:
            self._max_total_num_rows = num_rows
        if num_rows > self._max_total_num_rows:
            raise ValueError(f"qo_indptr: ends at {num_rows}, at the first plan() with "
                             f"use_cuda_graph it was {self._max_total_num_rows}: the most")
        copy_into("qo_indptr_buf", self._qo_indptr_buf, qo_indptr)
        copy_into("paged_kv_indptr_buf", self._paged_kv_indptr_buf, kv_indptr)
        copy_into("paged_kv_last_page_len_buf", self._paged_kv_last_page_len_buf, last_page_len)
        copy_into("paged_kv_indices_buf", self._paged_kv_indices_buf, kv_indices)

    def workspace_size(self, qo_indptr: Tensor, paged_kv_indptr: Tensor, paged_kv_indices: Tensor,
                       paged_kv_last_page_len: Tensor, num_qo_heads: int, num_kv_heads: int,
                       head_dim_qk: int, page_size: int, head_dim_vo: int | None = None,
                       custom_mask: Tensor | None = None, packed_custom_mask: Tensor | None = None,
                       causal: bool = False, pos_encoding_mode: str = "NONE",
                       use_fp16_qk_reduction: bool = False, sm_scale: float | Tensor | None = None,
                       window_left: int = -1, logits_soft_cap: float | None = None,
                       rope_scale: float | None = None, rope_theta: float | None = None,
                       q_data_type: Any = "float16", kv_data_type: Any = None,
                       o_data_type: Any = None, prefix_len_ptr: Tensor | None = None,
                       token_pos_in_items_ptr: Tensor | None = None,
                       token_pos_in_items_len: int = 0, max_item_len_ptr: Tensor | None = None,
                       seq_lens: Tensor | None = None, seq_lens_q: Tensor | None = None,
                       block_tables: Tensor | None = None,
                       max_token_per_sequence: int | None = None,
                       max_sequence_kv: int | None = None, fixed_split_size: int | None = None,
                       disable_split_kv: bool = False) -> tuple[int, int]:
        """Bytes that plan() would take of the float workspace at most, and of the int workspace,
        which is never needed: (float_bytes, 0). Arguments are those of plan()."""
        self._problem(
            q_data_type, kv_data_type, o_data_type, num_qo_heads, num_kv_heads, head_dim_qk,
            head_dim_vo, page_size, MASK_NONE,
            split_tokens(fixed_split_size, disable_split_kv, page_size), pos_encoding_mode,
            window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta)
        rows = as_numpy(qo_indptr)
        return self._workspace_bytes(len(rows) - 1, int(rows[-1]))

    def run(self, q: Tensor, paged_kv_cache: Tensor | tuple[Tensor, Tensor], *args: Any,
            q_scale: float | Tensor | None = None, k_scale: float | Tensor | None = None,
            v_scale: float | Tensor | None = None, out: Tensor | None = None,
            lse: Tensor | None = None, return_lse: bool = False, enable_pdl: bool | None = None,
            window_left: int | None = None, sinks: Tensor | None = None,
            kv_cache_sf: tuple[Tensor, Tensor] | None = None,
            skip_softmax_threshold_scale_factor: float | None = None,
            use_fp16_softmax: bool | None = None,
            uses_spcompress: bool | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Attention of the planned batch.

        Args:
            q: ``[num_tokens, num_qo_heads, head_dim_qk]``, num_tokens being ``qo_indptr[-1]``.
            paged_kv_cache: one tensor ``[num_pages, 2, page_size, num_kv_heads, head_dim]`` (HND:
                ``[num_pages, 2, num_kv_heads, page_size, head_dim]``), or a pair (k, v) without
                the second dimension. Page, head and token strides may be any.
            args: for quantised inputs, scales of q ``[num_qo_heads]``, of k and of v
                ``[num_kv_heads]``, float32. Of a variant: its tensors, its scalars.
            q_scale, k_scale, v_scale: what stored values are multiplied with: a number, a tensor
                of one, or one per head.
            out: ``[num_tokens, num_qo_heads, head_dim_vo]``; made when None.
            lse: ``[num_tokens, num_qo_heads]`` float32; made when wanted.
            return_lse: also returns `lse`, base-2 logarithms; -inf for a row that sees no key.
            enable_pdl: accepted; launches overlap where the GPU allows it.
            window_left: None, or what plan() was given.
            sinks: ``[num_qo_heads]`` float32: a logit more in each softmax.
            kv_cache_sf, skip_softmax_threshold_scale_factor, use_fp16_softmax, uses_spcompress:
                None; raise NotImplementedError.

        Returns:
            `out`, or (out, lse).
        """
        if window_left is not None:
            self._check_window(window_left)
        if not (kv_cache_sf is skip_softmax_threshold_scale_factor is use_fp16_softmax
                is uses_spcompress is None):
            refuse(kv_cache_sf=kv_cache_sf, use_fp16_softmax=use_fp16_softmax,
                   skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
                   uses_spcompress=uses_spcompress)
        k, v = unpack_cache(paged_kv_cache)
        if out is None:
            out = self._make_out(q)
        if return_lse and lse is None:
            lse = make_lse(q)
        if q_scale is k_scale is v_scale is sinks is self._variant is None and not args:
            self._run(q, k, v, out, lse)
        else:
            self._run_with(q, k, v, out, lse, (q_scale, k_scale, v_scale), args, sinks)
        return (out, lse) if return_lse else out

    def forward(self, q: Tensor, paged_kv_cache: Tensor | tuple[Tensor, Tensor],
                causal: bool = False, pos_encoding_mode: str = "NONE",
                use_fp16_qk_reduction: bool = False, k_scale: float | Tensor | None = None,
                v_scale: float | Tensor | None = None, window_left: int = -1,
                logits_soft_cap: float | None = None, sm_scale: float | Tensor | None = None,
                rope_scale: float | None = None, rope_theta: float | None = None) -> Tensor:
        """run() under these options in place of the plan's: of the original's older interface.
        Where they differ the batch is planned again."""
        self._change_to(causal, pos_encoding_mode, window_left, logits_soft_cap, sm_scale,
                        rope_scale, rope_theta)
        return self.run(q, paged_kv_cache, k_scale=k_scale, v_scale=v_scale)

    def forward_return_lse(self, q: Tensor, paged_kv_cache: Tensor | tuple[Tensor, Tensor],
                           causal: bool = False, pos_encoding_mode: str = "NONE",
                           use_fp16_qk_reduction: bool = False,
                           k_scale: float | Tensor | None = None,
                           v_scale: float | Tensor | None = None, window_left: int = -1,
                           logits_soft_cap: float | None = None,
                           sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                           rope_theta: float | None = None) -> tuple[Tensor, Tensor]:
        """forward() that returns (out, lse)."""
        self._change_to(causal, pos_encoding_mode, window_left, logits_soft_cap, sm_scale,
                        rope_scale, rope_theta)
        return self.run(q, paged_kv_cache, k_scale=k_scale, v_scale=v_scale, return_lse=True)
