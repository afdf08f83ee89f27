# SPDX-License-Identifier: Apache-2.0
"""The original's stateless entry points for serving engines, over tables of pages."""
from __future__ import annotations

import math
from typing import Any

from .._tensors import Tensor, is_on_cuda
from .arguments import check_lens, check_most, number, refuse
from .block_tables import draft_mask, lens_of, query_rows, run, split_cache
from .record import backend_name

# Backends of these functions in the original; here all mean the fastest that there is.
_BACKENDS = ("auto", "trtllm-gen", "xqa", "cudnn")


def _check_backend(backend):
    if backend not in _BACKENDS and backend_name(backend):
        raise ValueError(f"backend: is {backend!r}, accepted: {', '.join(_BACKENDS)}")


def _decode(query, k, v, workspace, block_tables, seq_lens, mask, rows, **kwargs):
    """Decode of one or more tokens a request, causal or under a mask over the new tokens."""
    custom_mask = None
    if mask is not None:
        if rows is None:
            rows = query_rows(0, 0, 1, range(query.shape[0] + 1))
        custom_mask = draft_mask(mask, rows, lens_of(seq_lens), query)
    return run(query, k, v, workspace, block_tables, seq_lens, qo_indptr=rows,
               causal=rows is not None, custom_mask=custom_mask, **kwargs)


def trtllm_batch_decode_with_kv_cache(query: Tensor, kv_cache: Tensor | tuple[Tensor, Tensor],
                                      workspace_buffer: Tensor, block_tables: Tensor,
                                      seq_lens: Tensor, max_seq_len: int,
                                      bmm1_scale: float | Tensor = 1.0,
                                      bmm2_scale: float | Tensor = 1.0, window_left: int = -1,
                                      out: Tensor | None = None, out_dtype: Any = None,
                                      o_sf_scale: float | Tensor | None = None,
                                      o_sf_vec_size: int | None = None, sinks: Tensor | None = None,
                                      kv_layout: str = "HND", enable_pdl: bool | None = None,
                                      backend: str = "auto", q_len_per_req: int = 1,
                                      o_scale: float | Tensor = 1.0, mask: Tensor | None = None,
                                      max_q_len: int | None = None,
                                      cum_seq_lens_q: Tensor | None = None,
                                      skip_softmax_threshold_scale_factor: float | None = None,
                                      kv_cache_sf: tuple[Tensor, Tensor] | None = None,
                                      uses_shared_paged_kv_idx: bool = True,
                                      lse: Tensor | None = None, return_lse: bool = False,
                                      bmm1_scale_log2: float | Tensor | None = None,
                                      multi_ctas_kv_counter_buffer: Tensor | None = None,
                                      enable_block_sparse_attention: bool = False,
                                      bf16q_fp8kv_transform_mode: str | None = None) -> Any:
    """Attention of each request's newest token, or tokens, over its pages.

    Args:
        query: ``[num_tokens, num_qo_heads, head_dim]``, requests one after another.
        kv_cache: ``[num_pages, 2, num_kv_heads, page_size, head_dim]`` (NHD: the middle two the
            other way round), or a pair (k, v) without the second dimension.
        workspace_buffer: memory for partial results, 16-byte aligned; need not be zeros.
        block_tables: ``[num_requests, most pages]`` int32; what is behind a request's pages is not
            read.
        seq_lens: ``[num_requests]``: keys of each request, the new tokens among them.
        max_seq_len: at least the largest of them.
        bmm1_scale: what q · k is multiplied with: a number or a tensor of one.
        bmm1_scale_log2: in place of bmm1_scale: that times log2(e).
        bmm2_scale: what the output is multiplied with, likewise.
        window_left: keys left of its own position that a query sees; -1: all.
        out: ``[num_tokens, num_qo_heads, head_dim]``; made when None.
        out_dtype: of `out`; q's when None. Not of 4 bits.
        sinks: ``[num_qo_heads]`` float32: a logit more in each softmax.
        kv_layout: ``"HND"`` or ``"NHD"``.
        enable_pdl, multi_ctas_kv_counter_buffer: accepted, and not needed.
        backend: ``"auto"``, ``"trtllm-gen"`` or ``"xqa"``: the fastest here.
        q_len_per_req: new tokens of each request, which are causal among themselves.
        o_scale: accepted: of an output of 8 bits, and in bmm2_scale already.
        mask: ``[num_requests, most q_len, words]`` uint16: in place of causal, bit j of a row:
            whether it sees the request's new token j.
        max_q_len, cum_seq_lens_q: in place of q_len_per_req: rows of q, ``[num_requests + 1]``.
        lse: ``[num_tokens, num_qo_heads]`` float32; made when wanted.
        return_lse: also returns `lse`, base-2 logarithms.
        o_sf_scale, o_sf_vec_size, kv_cache_sf, skip_softmax_threshold_scale_factor,
            enable_block_sparse_attention, bf16q_fp8kv_transform_mode: not given;
            uses_shared_paged_kv_idx: True. Others raise NotImplementedError.

    Returns:
        `out`, or (out, lse).
    """
    refuse(o_sf_scale=o_sf_scale, o_sf_vec_size=o_sf_vec_size, kv_cache_sf=kv_cache_sf,
           skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
           enable_block_sparse_attention=enable_block_sparse_attention,
           bf16q_fp8kv_transform_mode=bf16q_fp8kv_transform_mode,
           uses_shared_paged_kv_idx=None if uses_shared_paged_kv_idx else "False")
    _check_backend(backend)
    lens = lens_of(seq_lens)  # once: on a device it is waited for
    check_most("max_seq_len", max_seq_len, lens)
    rows = query_rows(query.shape[0], len(lens), q_len_per_req, cum_seq_lens_q)
    if rows is not None:
        check_most("max_q_len", max_q_len, rows[1:] - rows[:-1])
    k, v = split_cache(kv_cache)
    v_scale = number("bmm2_scale", bmm2_scale)
    if bmm1_scale_log2 is None:
        sm_scale = number("bmm1_scale", bmm1_scale)
    else:
        sm_scale = number("bmm1_scale_log2", bmm1_scale_log2) * math.log(2)
    return _decode(query, k, v, workspace_buffer, block_tables, lens, mask, rows,
                   kv_layout=kv_layout, sm_scale=sm_scale, window_left=window_left,
                   scales=(1.0, 1.0, v_scale), sinks=sinks, out=out, out_dtype=out_dtype, lse=lse, return_lse=return_lse)


def xqa_batch_decode_with_kv_cache(query: Tensor, kv_cache: Tensor | tuple[Tensor, Tensor],
                                   workspace_buffer: Tensor, block_tables: Tensor, seq_lens: Tensor,
                                   max_seq_len: int, bmm1_scale: float | Tensor = 1.0,
                                   bmm2_scale: float | Tensor = 1.0, window_left: int = -1,
                                   out: Tensor | None = None, sinks: Tensor | None = None,
                                   kv_layout: str = "NHD", enable_pdl: bool | None = None,
                                   q_len_per_req: int = 1, o_scale: float | Tensor = 1.0,
                                   mask: Tensor | None = None,
                                   kv_cache_sf: tuple[Tensor, Tensor] | None = None,
                                   q_cu_seq_lens: Tensor | None = None) -> Tensor:
    """trtllm_batch_decode_with_kv_cache() with the other default layout; `q_cu_seq_lens` is its
    cum_seq_lens_q."""
    return trtllm_batch_decode_with_kv_cache(
        query, kv_cache, workspace_buffer, block_tables, seq_lens, max_seq_len, bmm1_scale,
        bmm2_scale, window_left, out, sinks=sinks, kv_layout=kv_layout, enable_pdl=enable_pdl,
        q_len_per_req=q_len_per_req, o_scale=o_scale, mask=mask, kv_cache_sf=kv_cache_sf,
        cum_seq_lens_q=q_cu_seq_lens)


def trtllm_batch_context_with_kv_cache(query: Tensor, kv_cache: Tensor | tuple[Tensor, Tensor],
                                       workspace_buffer: Tensor, block_tables: Tensor,
                                       seq_lens: Tensor, max_q_len: int, max_kv_len: int,
                                       bmm1_scale: float | Tensor, bmm2_scale: float | Tensor,
                                       batch_size: int, cum_seq_lens_q: Tensor,
                                       cum_seq_lens_kv: Tensor, window_left: int = -1,
                                       out: Tensor | None = None, out_dtype: Any = None,
                                       o_sf_scale: float | Tensor | None = None,
                                       o_sf_vec_size: int | None = None, kv_layout: str = "HND",
                                       enable_pdl: bool | None = None, sinks: Tensor | None = None,
                                       kv_cache_sf: tuple[Tensor, Tensor] | None = None,
                                       skip_softmax_threshold_scale_factor: float | None = None,
                                       uses_shared_paged_kv_idx: bool = True, causal: bool = True,
                                       lse: Tensor | None = None, return_lse: bool = False,
                                       multi_ctas_kv_counter_buffer: Tensor | None = None,
                                       use_fp16_softmax: bool | None = None,
                                       uses_spcompress: bool | None = None) -> Any:
    """Attention of each request's newest tokens over its pages, which already hold them.

    Args:
        query: ``[num_tokens, num_qo_heads, head_dim]``.
        max_q_len, max_kv_len: at least the largest lengths.
        batch_size: requests.
        cum_seq_lens_q: ``[batch_size + 1]`` int32: rows of q.
        cum_seq_lens_kv: ``[batch_size + 1]`` int32: the sums of seq_lens; not read on a device.
        causal: query i sees key j iff j <= kv_len - q_len + i.
        use_fp16_softmax, uses_spcompress: None; raise NotImplementedError.

    The others, and the result, are as of trtllm_batch_decode_with_kv_cache().
    """
    import numpy

    from .arguments import as_numpy

    refuse(o_sf_scale=o_sf_scale, o_sf_vec_size=o_sf_vec_size, kv_cache_sf=kv_cache_sf,
           skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
           use_fp16_softmax=use_fp16_softmax, uses_spcompress=uses_spcompress,
           uses_shared_paged_kv_idx=None if uses_shared_paged_kv_idx else "False")
    rows = as_numpy(cum_seq_lens_q).astype(numpy.int32)
    lens = lens_of(seq_lens)
    if len(lens) != batch_size or len(rows) != batch_size + 1:
        raise ValueError(f"batch_size: is {batch_size}, but seq_lens has {len(lens)} numbers "
                         f"and cum_seq_lens_q {len(rows)}")
    if not is_on_cuda(cum_seq_lens_kv):  # there it would be waited for
        kv_rows = as_numpy(cum_seq_lens_kv)
        check_lens("cum_seq_lens_kv", kv_rows[1:] - kv_rows[:-1], lens)
    check_most("max_kv_len", max_kv_len, lens)
    check_most("max_q_len", max_q_len, rows[1:] - rows[:-1])
    k, v = split_cache(kv_cache)
    return run(query, k, v, workspace_buffer, block_tables, lens, kv_layout=kv_layout,
               qo_indptr=rows, causal=causal, sm_scale=number("bmm1_scale", bmm1_scale),
               window_left=window_left, scales=(1.0, 1.0, number("bmm2_scale", bmm2_scale)),
               sinks=sinks, out=out, out_dtype=out_dtype, lse=lse, return_lse=return_lse)
