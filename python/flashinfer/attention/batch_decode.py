# SPDX-License-Identifier: Apache-2.0
"""Attention of one new token per request over a paged KV cache."""
from __future__ import annotations

from typing import Any

from .._errors import BackendSupportedError
from .._tensors import Tensor
from ..jit.attention import gen_customize_batch_decode_module
from .arguments import (
    as_numpy,
    check_graph_buffers,
    check_lens,
    copy_into,
    deprecated,
    even_indptr,
    host,
    like,
    on_device,
    page_lens,
    refuse,
    unpack_cache,
)
from .planned import PlannedWrapper, make_lse, options
from .record import MASK_CAUSAL, MASK_NONE, split_tokens
from .variant import decode_variant_of

# In the order in which plan() of the original once took them by position.
_ONCE_POSITIONAL = ("pos_encoding_mode", "window_left", "logits_soft_cap", "q_data_type",
                    "kv_data_type", "o_data_type", "data_type", "sm_scale", "rope_scale",
                    "rope_theta", "non_blocking", "block_tables", "seq_lens", "fixed_split_size",
                    "disable_split_kv", "q_len_per_req")


class BatchDecodeWithPagedKVCacheWrapper(PlannedWrapper):
    """Attention of one new token per request over a paged KV cache.

    plan() decides how to share the work: call it when the batch changes, not per layer. run() only
    runs. Tensors in host memory take the CPU backend, those on a CUDA device the GPU's.

    Args:
        float_workspace_buffer: memory for partial results of requests whose keys are split; fewer
            are split when it is small. Its device is the wrapper's. 16-byte aligned.
        kv_layout: of pages, ``"NHD"`` [page_size, num_kv_heads, head_dim], or ``"HND"``.
        use_cuda_graph: copies index tensors into the three buffers, which a graph may read.
        use_tensor_cores: needed for q_len_per_req above 1; else the fastest kernel for the problem
            is taken either way.
        paged_kv_indptr_buffer: ``[num_requests + 1]`` int32, for a graph.
        paged_kv_indices_buffer: ``[most pages]`` int32, for a graph.
        paged_kv_last_page_len_buffer: ``[num_requests]`` int32, for a graph.
        backend: ``"auto"``, ``"fa2"`` and ``"fa3"`` mean the fastest here; or ``"cpu"``,
            ``"cuda"`` or a candidate such as ``"cuda.simt"``.
        jit_args: what gen_customize_batch_decode_module() takes: a variant of attention in CUDA
            C++. run() then takes its tensors and its scalars behind the cache. On CUDA devices;
            that of attention sinks everywhere.
    """

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD",
                 use_cuda_graph: bool = False, use_tensor_cores: bool = False,
                 paged_kv_indptr_buffer: Tensor | None = None,
                 paged_kv_indices_buffer: Tensor | None = None,
                 paged_kv_last_page_len_buffer: Tensor | None = None, backend: str = "auto",
                 jit_args: Any = None) -> None:
        super().__init__(float_workspace_buffer, kv_layout, backend,
                         decode_variant_of(jit_args, use_tensor_cores,
                                           gen_customize_batch_decode_module))
        if use_cuda_graph:
            check_graph_buffers(paged_kv_indptr_buffer=paged_kv_indptr_buffer,
                                paged_kv_indices_buffer=paged_kv_indices_buffer,
                                paged_kv_last_page_len_buffer=paged_kv_last_page_len_buffer)
            self._fixed_batch_size = len(paged_kv_last_page_len_buffer)
            if len(paged_kv_indptr_buffer) != self._fixed_batch_size + 1:
                raise ValueError(f"paged_kv_indptr_buffer: has {len(paged_kv_indptr_buffer)} "
                                 f"numbers, expected {self._fixed_batch_size + 1}")
        else:
            self._fixed_batch_size = 0
        self._use_cuda_graph = use_cuda_graph
        self._use_tensor_cores = use_tensor_cores
        self._q_len_per_req = None  # None: nothing was planned
        self._qo_indptr_on_device = None
        self._paged_kv_indptr_buf = paged_kv_indptr_buffer
        self._paged_kv_indices_buf = paged_kv_indices_buffer
        self._paged_kv_last_page_len_buf = paged_kv_last_page_len_buffer

    @property
    def use_tensor_cores(self) -> bool:
        """What the constructor was given."""
        return self._use_tensor_cores

    def plan(self, indptr: Tensor, indices: Tensor, last_page_len: Tensor, num_qo_heads: int,
             num_kv_heads: int, head_dim: int, page_size: int, *deprecated_positional_args: Any,
             **kwargs: Any) -> None:
        """Fixes the batch for the run() calls that follow.

        Request b's tokens are in pages ``indices[indptr[b]:indptr[b + 1]]``, the last of which
        holds ``last_page_len[b]``. ``indptr`` and ``last_page_len`` are read here; where they are
        on a device it is waited for, once. A plan for a graph reads them on the device.

        Args:
            indptr: ``[num_requests + 1]`` int32, not decreasing, first 0.
            indices: ``[indptr[-1]]`` int32, on the wrapper's device (copied there if not).
            last_page_len: ``[num_requests]`` int32, each in 1..page_size.
            num_qo_heads: a multiple of `num_kv_heads`.
            head_dim: a multiple of 8 up to 512.
            pos_encoding_mode: ``"NONE"``, ``"ROPE_LLAMA"`` (rotates q and k on the fly) or
                ``"ALIBI"``.
            window_left: keys left of its own position that a query sees; -1: all.
            window_right: 0.
            logits_soft_cap: scores become cap · tanh(score / cap); None or 0: none.
            q_data_type, kv_data_type, o_data_type: dtypes of a framework or their names; the last
                two are q's when None. ``data_type`` is the older name of kv_data_type.
            sm_scale: 1 / sqrt(head_dim) when None.
            rope_scale, rope_theta: 1 and 10000 when None.
            non_blocking: accepted; copies of index tensors order themselves with the stream.
            block_tables: accepted: the same pages once more.
            seq_lens: ``[num_requests]``: compared with the lengths that the pages give.
            fixed_split_size: keys are split every so many pages (rounded up to 64 tokens),
                whatever else is in the batch, so that results do not depend on it.
            disable_split_kv: keys are not split.
            q_len_per_req: query tokens per request; above 1 they are the last ones of the
                request, causal, which needs use_tensor_cores.

        Raises:
            ValueError: a shape, length or size is wrong; names the argument.
            NotImplementedError: no backend takes the problem; the message has each one's reason.
        """
        if deprecated_positional_args:
            if len(deprecated_positional_args) > len(_ONCE_POSITIONAL):
                raise TypeError("plan() takes at most "
                                f"{7 + len(_ONCE_POSITIONAL)} positional arguments")
            deprecated("plan(): arguments after page_size by position are deprecated")
            for name, value in zip(_ONCE_POSITIONAL, deprecated_positional_args):
                if name in kwargs:
                    raise TypeError(f"plan() got multiple values for argument {name!r}")
                kwargs[name] = value
        self._plan_impl(indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim,
                        page_size, **kwargs)

    begin_forward = plan

    def _plan_impl(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim,
                   page_size, *, pos_encoding_mode="NONE", window_left=-1, window_right=0,
                   logits_soft_cap=None, q_data_type="float16", kv_data_type=None,
                   o_data_type=None, data_type=None, sm_scale=None, rope_scale=None,
                   rope_theta=None, non_blocking=True, block_tables=None, seq_lens=None,
                   fixed_split_size=None, disable_split_kv=False, q_len_per_req=1,
                   indptr_host=None, is_in_buffers=False):
        """`is_in_buffers`: a graph's buffers hold the tables already."""
        lengths = (indptr if indptr_host is None else indptr_host), last_page_len
        if not self._use_cuda_graph and seq_lens is None and q_len_per_req == 1:
            self._begin_plan(None, lengths[0], None if page_size == 1 else last_page_len)
        if window_right:
            refuse(window_right=window_right)
        fields = self._fields_of(
            num_qo_heads, num_kv_heads, head_dim, page_size, q_data_type, kv_data_type,
            o_data_type, data_type, q_len_per_req,
            split_tokens(fixed_split_size, disable_split_kv, page_size),
            (pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta))
        if self._use_cuda_graph and self._q_len_per_req not in (None, q_len_per_req):
            raise ValueError(f"q_len_per_req: is {q_len_per_req}, but with use_cuda_graph it is "
                             f"frozen at {self._q_len_per_req}")
        num_requests = last_page_len.shape[0]  # len() of a torch tensor takes 0.5 us
        if q_len_per_req != 1:
            self._check_q_len(q_len_per_req)
        if seq_lens is not None or q_len_per_req != 1:
            lengths = host(lengths[0]), host(last_page_len)
            self._check_lens(*lengths, page_size, seq_lens, q_len_per_req)
        graph = None
        num_rows = num_requests * q_len_per_req
        if self._use_cuda_graph:
            if num_requests != self._fixed_batch_size:
                raise ValueError(f"last_page_len: has {num_requests} requests, the buffers of the "
                                 f"graph are for {self._fixed_batch_size}")
            if is_in_buffers:
                indices = self._paged_kv_indices_buf
            else:
                copy_into("paged_kv_indptr_buffer", self._paged_kv_indptr_buf, indptr)
                copy_into("paged_kv_last_page_len_buffer", self._paged_kv_last_page_len_buf,
                          last_page_len)
                copy_into("paged_kv_indices_buffer", self._paged_kv_indices_buf, indices)
                indices = self._paged_kv_indices_buf
            graph = ((self._qo_indptr_buf(q_len_per_req), self._paged_kv_indptr_buf,
                      self._paged_kv_indices_buf, self._paged_kv_last_page_len_buf),
                     (num_rows, 0), num_rows)
        else:
            indices = on_device(indices, self._float_workspace_buffer)
            self._paged_kv_indptr_buf = indptr
            self._paged_kv_indices_buf = indices
            self._paged_kv_last_page_len_buf = last_page_len
        qo_indptr = None if q_len_per_req == 1 else even_indptr(num_requests, q_len_per_req)
        self._plan_with(fields, qo_indptr, lengths[0], indices, lengths[1], graph=graph)
        self._q_len_per_req = q_len_per_req
        self._num_rows = num_rows

    def _qo_indptr_buf(self, q_len_per_req):
        """Rows of q of a graph's requests, on the device; None for one each."""
        if q_len_per_req == 1:
            return None
        if self._qo_indptr_on_device is None:  # q_len_per_req is frozen
            self._qo_indptr_on_device = like(even_indptr(self._fixed_batch_size, q_len_per_req),
                                             self._paged_kv_indptr_buf)
        return self._qo_indptr_on_device

    def _fields_of(self, num_qo_heads, num_kv_heads, head_dim, page_size, q_data_type,
                   kv_data_type, o_data_type, data_type, q_len_per_req, split, opts):
        if data_type is not None:
            q_data_type = data_type if q_data_type is None else q_data_type
            kv_data_type = data_type if kv_data_type is None else kv_data_type
        return self._problem(q_data_type, kv_data_type, o_data_type, num_qo_heads, num_kv_heads,
                             head_dim, head_dim, page_size,
                             MASK_NONE if q_len_per_req == 1 else MASK_CAUSAL, split, *opts)

    @staticmethod
    def _check_lens(indptr, last_page_len, page_size, seq_lens, q_len_per_req):
        lens = page_lens(as_numpy(indptr), as_numpy(last_page_len), page_size)
        check_lens("seq_lens", seq_lens, lens)
        if q_len_per_req > 1 and len(lens) and lens.min() < q_len_per_req:
            raise ValueError(f"q_len_per_req: is {q_len_per_req}, but a request has only "
                             f"{lens.min()} keys: its first tokens have an empty KV range")

    def _check_q_len(self, q_len_per_req):
        """What the original asks for where requests have several query tokens."""
        if q_len_per_req < 1:
            raise ValueError(f"q_len_per_req: is {q_len_per_req}, expected 1 or more")
        if not self._use_tensor_cores:
            raise ValueError(f"q_len_per_req: is {q_len_per_req}, which needs "
                             "use_tensor_cores=True")
        if self._backend == "fa3":
            raise BackendSupportedError(f"q_len_per_req: is {q_len_per_req}, accepted with "
                                        "backend fa3: 1; auto and fa2 take any")

    def workspace_size(self, indptr: Tensor, indices: Tensor, last_page_len: Tensor,
                       num_qo_heads: int, num_kv_heads: int, head_dim: int, page_size: int,
                       pos_encoding_mode: str = "NONE", window_left: int = -1,
                       logits_soft_cap: float | None = None, q_data_type: Any = "float16",
                       kv_data_type: Any = None, o_data_type: Any = None, data_type: Any = None,
                       sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                       rope_theta: float | None = None, block_tables: Tensor | None = None,
                       seq_lens: Tensor | None = None, fixed_split_size: int | None = None,
                       disable_split_kv: bool = False, q_len_per_req: int = 1) -> tuple[int, int]:
        """Bytes that plan() would take of the float workspace at most, and of the int workspace,
        which is never needed: (float_bytes, 0). Arguments are those of plan()."""
        self._fields_of(
            num_qo_heads, num_kv_heads, head_dim, page_size, q_data_type, kv_data_type,
            o_data_type, data_type, q_len_per_req,
            split_tokens(fixed_split_size, disable_split_kv, page_size),
            (pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta))
        num_requests = len(last_page_len)
        max_tokens = 0 if q_len_per_req == 1 else num_requests * q_len_per_req
        return self._workspace_bytes(num_requests, max_tokens)

    def run(self, q: Tensor, paged_kv_cache: Tensor | tuple[Tensor, Tensor], *args: Any,
            q_scale: float | Tensor | None = None, k_scale: float | Tensor | None = None,
            v_scale: float | Tensor | None = None, out: Tensor | None = None,
            lse: Tensor | None = None, return_lse: bool = False, enable_pdl: bool | None = None,
            window_left: int | None = None, sinks: Tensor | None = None,
            q_len_per_req: int | None = None,
            skip_softmax_threshold_scale_factor: float | None = None,
            kv_cache_sf: tuple[Tensor, Tensor] | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Attention of the planned batch.

        Args:
            q: ``[num_requests · q_len_per_req, num_qo_heads, head_dim]``.
            paged_kv_cache: one tensor ``[num_pages, 2, page_size, num_kv_heads, head_dim]`` (HND:
                ``[num_pages, 2, num_kv_heads, page_size, head_dim]``), or a pair (k, v) without
                the second dimension. Page, head and token strides may be any.
            args: for quantised inputs, scales of q ``[num_qo_heads]``, of k and of v
                ``[num_kv_heads]``, float32. Of a variant: its tensors, its scalars.
            q_scale, k_scale, v_scale: what stored values are multiplied with: a number, a tensor
                of one, or one per head.
            out: ``[num_requests · q_len_per_req, num_qo_heads, head_dim]``; made when None.
            lse: ``[num_requests · q_len_per_req, num_qo_heads]`` float32; made when wanted.
            return_lse: also returns `lse`, base-2 logarithms; -inf for a request without keys.
            enable_pdl: accepted; launches overlap where the GPU allows it.
            window_left: None, or what plan() was given.
            sinks: ``[num_qo_heads]`` float32: a logit more in each softmax.
            q_len_per_req: None, or what plan() was given.
            skip_softmax_threshold_scale_factor, kv_cache_sf: None; raise NotImplementedError.

        Returns:
            `out`, or (out, lse).
        """
        if window_left is not None:
            self._check_window(window_left)
        if skip_softmax_threshold_scale_factor is not None or kv_cache_sf is not None:
            refuse(skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
                   kv_cache_sf=kv_cache_sf)
        if q_len_per_req is not None and q_len_per_req != self._q_len_per_req:
            raise ValueError(f"q_len_per_req: is {q_len_per_req}, but plan() was given "
                             f"{self._q_len_per_req}")
        if self._q_len_per_req not in (None, 1) and q.shape[0] != self._num_rows:
            raise ValueError(f"q: has {q.shape[0]} rows, expected {self._num_rows}: q_len_per_req, "
                             f"{self._q_len_per_req}, for each request")
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
                pos_encoding_mode: str = "NONE", q_scale: float | Tensor | None = None,
                k_scale: float | Tensor | None = None, v_scale: float | Tensor | None = None,
                window_left: int = -1, logits_soft_cap: float | None = None,
                sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                rope_theta: float | None = None) -> Tensor:
        """run() under these options in place of the plan's: of the original's older interface.
        Where they differ the batch is planned again."""
        self._change(**options(pos_encoding_mode, window_left, logits_soft_cap, sm_scale,
                               rope_scale, rope_theta))
        return self.run(q, paged_kv_cache, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)

    def forward_return_lse(self, q: Tensor, paged_kv_cache: Tensor | tuple[Tensor, Tensor],
                           pos_encoding_mode: str = "NONE", q_scale: float | Tensor | None = None,
                           k_scale: float | Tensor | None = None,
                           v_scale: float | Tensor | None = None, window_left: int = -1,
                           logits_soft_cap: float | None = None,
                           sm_scale: float | Tensor | None = None, rope_scale: float | None = None,
                           rope_theta: float | None = None) -> tuple[Tensor, Tensor]:
        """forward() that returns (out, lse)."""
        self._change(**options(pos_encoding_mode, window_left, logits_soft_cap, sm_scale,
                               rope_scale, rope_theta))
        return self.run(q, paged_kv_cache, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale,
                        return_lse=True)
