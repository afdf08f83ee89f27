# SPDX-License-Identifier: Apache-2.0
"""The original's stateless entry points for prefill over keys in a row, or in pages."""
from __future__ import annotations

import math
from typing import Any

from .._binding import lib
from .._errors import BackendSupportedError
from .._tensors import Tensor, dtype_name, empty, is_on_cuda
from .arguments import as_numpy, check_lens, check_most, like, number, refuse, workspace_address
from .block_tables import lens_of, plan_on, run, split_cache
from .planned import make_lse, make_out, options
from .record import (
    LAYOUTS,
    MASK_CAUSAL,
    MASK_CUSTOM,
    MASK_NONE,
    PROBLEM,
    device_of,
    dtype_code,
    pack,
)


def _rows(name, cum_seq_lens, num_requests, num_rows):
    """Rows of each request as NumPy int32."""
    import numpy

    rows = as_numpy(cum_seq_lens).astype(numpy.int32)
    if rows.shape != (num_requests + 1,) or rows[-1] > num_rows:
        raise ValueError(f"{name}: is {rows}, expected {num_requests + 1} rows up to {num_rows}")
    return rows


def softmax_pairs(lse: Tensor, scale: float = 1.0, out: Tensor | None = None) -> Tensor:
    """Pairs (m, s) with the logarithm scale · m + log(s) of base e for one of base 2; s is 1."""
    if out is None:
        out = empty((*lse.shape, 2), lse)
    out[..., 0] = lse * (math.log(2) / scale)
    out[..., 1] = 1
    return out


def run_ragged(query: Tensor, key: Tensor, value: Tensor, workspace: Tensor | None, q_rows: Any,
               kv_rows: Any, opts: dict, mask: int, custom_mask: Tensor | None, v_scale: float,
               sinks: Tensor | None, out: Tensor | None, out_dtype: Any, lse: Tensor | None,
               return_lse: bool) -> Any:
    """Attention of requests whose keys lie one after another; rows are NumPy's."""
    if out is None:
        out = make_out(query, value.shape[-1],
                       None if out_dtype is None else dtype_name(out_dtype))
    if return_lse and lse is None:
        lse = make_lse(query)
    if workspace is not None:
        workspace_address(workspace)  # raises where it cannot be written to
    device = device_of(query)
    record = pack(PROBLEM, (
        dtype_code("query", query.dtype), dtype_code("key", key.dtype),
        dtype_code("out", out.dtype), query.shape[1], key.shape[1], query.shape[2],
        value.shape[2], 0, LAYOUTS["NHD"], mask, opts["window_left"], opts["pos_encoding"], 0,
        opts["sm_scale"], opts["logits_soft_cap"], 1.0, 1e4))
    plan = plan_on(device, workspace)
    lib.attention_plan(plan, record, workspace, q_rows, kv_rows, None, None, custom_mask, None)
    if sinks is None:
        lib.attention_run(plan, query, key, value, out, lse, 1.0, 1.0, v_scale)
    else:
        lib.attention_run_with(plan, query, key, value, out, lse, [1.0, 1.0, v_scale],
                               [None, None, None, sinks, None, None])
    return (out, lse) if return_lse else out


def trtllm_ragged_attention_deepseek(query: Tensor, key: Tensor, value: Tensor,
                                     workspace_buffer: Tensor, seq_lens: Tensor, max_q_len: int,
                                     max_kv_len: int, bmm1_scale: float | Tensor,
                                     bmm2_scale: float | Tensor, o_sf_scale: float | Tensor,
                                     batch_size: int, window_left: int, cum_seq_lens_q: Tensor,
                                     cum_seq_lens_kv: Tensor, enable_pdl: bool, is_causal: bool,
                                     return_lse: bool, attention_sinks: Tensor | None = None,
                                     skip_softmax_threshold_scale_factor: float | None = None,
                                     out: Tensor | None = None, lse: Tensor | None = None,
                                     sage_attn_sfs: tuple[Any, ...] = (None, None, None, None),
                                     num_elts_per_sage_attn_blk: tuple[int, ...] = (0, 0, 0, 0),
                                     backend: str = "trtllm-gen",
                                     q_seq_lens_cpu: Tensor | None = None,
                                     kv_seq_lens_cpu: Tensor | None = None,
                                     use_fp16_softmax: bool | None = None,
                                     uses_spcompress: bool | None = None) -> Any:
    """Attention of each request's newest tokens over its keys, requests one after another.

    Args:
        query: ``[num_tokens, num_qo_heads, head_dim_qk]``.
        key: ``[num_keys, num_kv_heads, head_dim_qk]``.
        value: ``[num_keys, num_kv_heads, head_dim_vo]``.
        workspace_buffer: memory for partial results, 16-byte aligned.
        seq_lens: ``[batch_size]``: keys of each request, as cum_seq_lens_kv has them; not read on
            a device.
        max_q_len, max_kv_len: at least the largest lengths.
        bmm1_scale, bmm2_scale: what q · k and the output are multiplied with: numbers, or tensors
            of one.
        o_sf_scale: accepted: of outputs of 4 bits, which are not here.
        window_left: keys left of its own position that a query sees; -1: all.
        cum_seq_lens_q, cum_seq_lens_kv: ``[batch_size + 1]`` int32: rows.
        enable_pdl: accepted; launches overlap where the GPU allows it.
        is_causal: query i sees key j iff j <= kv_len - q_len + i.
        return_lse: also returns lse, ``[num_tokens, num_qo_heads]`` float32, base-2 logarithms.
        attention_sinks: ``[num_qo_heads]`` float32: a logit more in each softmax.
        out: ``[num_tokens, num_qo_heads, head_dim_vo]``; made when None.
        backend: ``"trtllm-gen"`` or ``"auto"``: the fastest here.
        q_seq_lens_cpu, kv_seq_lens_cpu: accepted: the lengths once more.
        skip_softmax_threshold_scale_factor, sage_attn_sfs, num_elts_per_sage_attn_blk,
            use_fp16_softmax, uses_spcompress: not given; raise NotImplementedError.

    Returns:
        `out`, or (out, lse).
    """
    refuse(skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
           sage_attn_sfs=sage_attn_sfs if any(s is not None for s in sage_attn_sfs) else None,
           num_elts_per_sage_attn_blk=any(num_elts_per_sage_attn_blk) or None,
           use_fp16_softmax=use_fp16_softmax, uses_spcompress=uses_spcompress)
    if backend not in ("trtllm-gen", "auto"):
        raise BackendSupportedError(f"backend: is {backend!r}, accepted: trtllm-gen, auto")
    q_rows = _rows("cum_seq_lens_q", cum_seq_lens_q, batch_size, query.shape[0])
    kv_rows = _rows("cum_seq_lens_kv", cum_seq_lens_kv, batch_size, key.shape[0])
    if not is_on_cuda(seq_lens):  # there it would be waited for
        check_lens("seq_lens", seq_lens, kv_rows[1:] - kv_rows[:-1])
    for name, promised, rows in (("max_q_len", max_q_len, q_rows),
                                 ("max_kv_len", max_kv_len, kv_rows)):
        check_most(name, promised, rows[1:] - rows[:-1])
    opts = options("NONE", window_left, None, bmm1_scale, None, None)
    return run_ragged(query, key, value, workspace_buffer, q_rows, kv_rows, opts,
                      MASK_CAUSAL if is_causal else MASK_NONE, None,
                      number("bmm2_scale", bmm2_scale), attention_sinks, out, None, lse,
                      return_lse)


def chunked_mask(q_rows: Tensor, kv_lens: Tensor, chunk: int) -> Any:
    """Masks of requests whose query at position p sees the keys from its chunk's first to p."""
    import numpy

    parts = []
    for b, kv_len in enumerate(kv_lens):
        q_len = int(q_rows[b + 1] - q_rows[b])
        position = (int(kv_len) - q_len + numpy.arange(q_len))[:, None]
        keys = numpy.arange(int(kv_len))
        seen = (keys <= position) & (keys >= position // chunk * chunk)
        parts.append(seen.reshape(-1))
    return numpy.concatenate(parts) if parts else numpy.empty(0, bool)


def _unpacked(qkv, input_layout):
    """(q, k, v, whether keys are in pages, their layout)."""
    if input_layout == "PACKED_QKV":
        if len(qkv.shape) != 4 or qkv.shape[1] != 3:
            raise ValueError(f"qkv: has shape {tuple(qkv.shape)}, expected "
                             "[num_tokens, 3, num_heads, head_dim]")
        return qkv[:, 0], qkv[:, 1], qkv[:, 2], None
    if input_layout == "CONTIGUOUS_Q_KV":
        q, kv = qkv
        return q, kv[:, 0], kv[:, 1], None
    if input_layout == "SEPARATE_Q_K_V":
        return (*qkv, None)
    if input_layout in ("Q_PAGED_KV_HND", "Q_PAGED_KV_NHD"):
        q, cache = qkv
        return q, *split_cache(cache), input_layout[-3:]
    raise ValueError(f"input_layout: is {input_layout!r}, accepted: PACKED_QKV, CONTIGUOUS_Q_KV, "
                     "SEPARATE_Q_K_V, Q_PAGED_KV_HND, Q_PAGED_KV_NHD")


def trtllm_fmha_v2_prefill(qkv: Any, input_layout: str, workspace_buffer: Tensor, seq_lens: Tensor,
                           max_q_len: int, max_kv_len: int, bmm1_scale: float | Tensor,
                           bmm2_scale: float | Tensor, batch_size: int, cum_seq_lens_q: Tensor,
                           cum_seq_lens_kv: Tensor, block_tables: Tensor | None = None,
                           out: Tensor | None = None, out_dtype: Any = None,
                           sinks: Tensor | None = None, pos_encoding_mode: str | None = None,
                           logits_soft_cap_scale: float | None = None, mask_mode: str = "causal",
                           window_left: int = -1, chunked_attention_size: int = 0,
                           save_softmax_stats: bool = False,
                           skip_softmax_threshold_scale_factor: int = 0) -> Any:
    """Attention of each request's newest tokens over its keys, in one of several layouts.

    Args:
        qkv: of ``"PACKED_QKV"`` ``[num_tokens, 3, num_heads, head_dim]``; of
            ``"CONTIGUOUS_Q_KV"`` q ``[num_tokens, num_qo_heads, head_dim]`` and kv ``[num_keys, 2,
            num_kv_heads, head_dim]``; of ``"SEPARATE_Q_K_V"`` q, k, v; of ``"Q_PAGED_KV_HND"`` and
            ``"Q_PAGED_KV_NHD"`` q and a cache as of trtllm_batch_decode_with_kv_cache().
        input_layout: one of these.
        workspace_buffer: memory for partial results, 16-byte aligned.
        seq_lens: ``[batch_size]``: keys of each request.
        max_q_len, max_kv_len: at least the largest lengths.
        bmm1_scale, bmm2_scale: what q · k and the output are multiplied with: numbers, or tensors
            of one.
        cum_seq_lens_q, cum_seq_lens_kv: ``[batch_size + 1]`` int32: rows.
        block_tables: ``[batch_size, most pages]`` int32, of pages.
        out: ``[num_tokens, num_qo_heads, head_dim]``; made when None.
        out_dtype: of `out`; q's when None.
        sinks: ``[num_qo_heads]`` float32: a logit more in each softmax.
        pos_encoding_mode: None or ``"alibi"``.
        logits_soft_cap_scale: scores become cap · tanh(score / cap); None or 0: none.
        mask_mode: ``"causal"``; ``"sliding_window"``, causal with `window_left`; ``"chunked"``,
            causal within chunks of `chunked_attention_size` positions; ``"padding"``: all keys.
        save_softmax_stats: also returns pairs (m, s) of each softmax, ``[num_tokens, num_qo_heads,
            2]`` float32. Its logarithm of base e is ``c · m + log(s)``, where c is bmm1_scale ·
            sqrt(head_dim), or sqrt(head_dim) with a soft cap; s is 1.
        skip_softmax_threshold_scale_factor: 0; else NotImplementedError.

    Returns:
        `out`, or (out, pairs).
    """
    refuse(skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor or None)
    if pos_encoding_mode not in (None, "alibi", "ALIBI", "NONE"):
        raise ValueError(f"pos_encoding_mode: is {pos_encoding_mode!r}, accepted: None, alibi")
    if mask_mode not in ("causal", "sliding_window", "chunked", "padding"):
        raise ValueError(f"mask_mode: is {mask_mode!r}, accepted: causal, sliding_window, "
                         "chunked, padding")
    if mask_mode == "chunked" and chunked_attention_size < 1:
        raise ValueError(f"chunked_attention_size: is {chunked_attention_size}, expected 1 or "
                         "more with mask_mode chunked")
    q, k, v, layout = _unpacked(qkv, input_layout)
    q_rows = _rows("cum_seq_lens_q", cum_seq_lens_q, batch_size, q.shape[0])
    lens = lens_of(seq_lens)
    check_most("max_q_len", max_q_len, q_rows[1:] - q_rows[:-1])
    check_most("max_kv_len", max_kv_len, lens)
    custom_mask = None
    if mask_mode == "chunked":
        custom_mask = like(chunked_mask(q_rows, lens, chunked_attention_size), q)
    is_causal = mask_mode != "padding"
    window = window_left if mask_mode == "sliding_window" else -1
    encoding = "ALIBI" if pos_encoding_mode in ("alibi", "ALIBI") else "NONE"
    v_scale = number("bmm2_scale", bmm2_scale)
    if layout is not None:
        if block_tables is None:
            raise ValueError("block_tables: is None, expected a table with keys in pages")
        result = run(q, k, v, workspace_buffer, block_tables, lens, kv_layout=layout,
                     qo_indptr=q_rows, causal=is_causal, sm_scale=bmm1_scale, window_left=window,
                     scales=(1.0, 1.0, v_scale), sinks=sinks, custom_mask=custom_mask, out=out,
                     out_dtype=out_dtype, return_lse=save_softmax_stats,
                     pos_encoding_mode=encoding, logits_soft_cap=logits_soft_cap_scale)
    else:
        kv_rows = _rows("cum_seq_lens_kv", cum_seq_lens_kv, batch_size, k.shape[0])
        opts = options(encoding, window, logits_soft_cap_scale, bmm1_scale, None, None)
        mask = MASK_CUSTOM if custom_mask is not None else MASK_CAUSAL if is_causal else MASK_NONE
        result = run_ragged(q, k, v, workspace_buffer, q_rows, kv_rows, opts, mask, custom_mask,
                            v_scale, sinks, out, out_dtype, None, save_softmax_stats)
    if not save_softmax_stats:
        return result
    scale = math.sqrt(q.shape[-1])
    if not logits_soft_cap_scale:
        scale *= number("bmm1_scale", bmm1_scale)
    return result[0], softmax_pairs(result[1], scale)
