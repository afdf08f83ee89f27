# SPDX-License-Identifier: Apache-2.0
"""Latent attention over tables of pages: plan and run in one call."""
import threading
from dataclasses import dataclass

from .._binding import lib
from .._errors import BackendSupportedError
from .._tensors import empty
from .arguments import check_most, even_indptr, number, on_device, refuse
from .block_tables import lens_of, listed_pages, query_rows
from .planned import make_lse, workspace_address
from .record import MLA_PROBLEM, arch_of, device_of, dtype_code, pack

_plans = threading.local()  # .by_device: of this thread


@dataclass(frozen=True)
class MLAHeadDimensions:
    """Widths of a head of latent attention, before absorption."""

    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    kv_lora_rank: int


@dataclass(frozen=True)
class MLALayerDimensions:
    """Those of a layer."""

    head_dimensions: MLAHeadDimensions
    num_heads: int


def _plan_on(device):
    by_device = getattr(_plans, "by_device", None)
    if by_device is None:
        by_device = _plans.by_device = {}
    if device not in by_device:
        by_device[device] = lib.mla_plan_make(*device)
    return by_device[device]


def _flat(query, kv_cache, width):
    """([num_tokens, num_heads, width], tokens a request or None, [num_pages, page_size, width])."""
    if len(kv_cache.shape) == 4 and kv_cache.shape[1] == 1:
        kv_cache = kv_cache[:, 0]
    if len(kv_cache.shape) != 3 or kv_cache.shape[2] != width:
        raise ValueError(f"kv_cache: has shape {tuple(kv_cache.shape)}, expected "
                         f"[num_pages, page_size, {width}]")
    if len(query.shape) not in (3, 4) or query.shape[-1] != width:
        raise ValueError(f"query: has shape {tuple(query.shape)}, expected [num_requests, q_len, "
                         f"num_heads, {width}]")
    if len(query.shape) == 3:
        return query, None, kv_cache
    return query.reshape(-1, *query.shape[2:]), query.shape[1], kv_cache


def trtllm_batch_decode_with_kv_cache_mla(
        query, kv_cache, workspace_buffer, qk_nope_head_dim, kv_lora_rank, qk_rope_head_dim,
        block_tables, seq_lens, max_seq_len, sparse_mla_top_k=0, out=None, bmm1_scale=1.0,
        bmm2_scale=1.0, sinks=None, skip_softmax_threshold_scale_factor=None, enable_pdl=None,
        backend="auto", is_var_seq=True, uses_shared_paged_kv_idx=True, lse=None,
        return_lse=False, cute_dsl_impl="auto", kv_scale_format="auto", cum_seq_lens_q=None,
        max_q_len=None, multi_ctas_kv_counter_buffer=None, sparse_mla_top_k_lens=None,
        enable_dcp=False, cp_world=1, cp_rank=0, causal_seqlens_kv_global=None,
        use_fp16_softmax=None):
    """Latent attention of each request's newest tokens, causal, over its pages.

    Args:
        query: ``[num_requests, q_len, num_heads, kv_lora_rank + qk_rope_head_dim]``, or with
            cum_seq_lens_q ``[num_tokens, num_heads, …]``.
        kv_cache: ``[num_pages, page_size, kv_lora_rank + qk_rope_head_dim]``, also with a second
            dimension of 1.
        workspace_buffer: memory for partial results, 16-byte aligned; need not be zeros.
        qk_nope_head_dim: accepted: of heads before absorption.
        kv_lora_rank, qk_rope_head_dim: widths of the latent and of the part with positions.
        block_tables: ``[num_requests, most pages]`` int32.
        seq_lens: ``[num_requests]``: keys of each request, the new tokens among them.
        max_seq_len: at least the largest of them.
        out: ``[num_requests, q_len, num_heads, kv_lora_rank]``; made when None.
        bmm1_scale: what q · k is multiplied with: a number or a tensor of one.
        bmm2_scale: what the output is multiplied with, likewise.
        enable_pdl, is_var_seq, cute_dsl_impl, multi_ctas_kv_counter_buffer: accepted, and not
            needed.
        backend: ``"auto"``, ``"trtllm-gen"`` or ``"xqa"``: the fastest here.
        lse: ``[num_tokens, num_heads]`` float32; made when wanted.
        return_lse: also returns `lse`, base-2 logarithms.
        cum_seq_lens_q, max_q_len: rows of q, where requests differ.
        sparse_mla_top_k, sparse_mla_top_k_lens, sinks, skip_softmax_threshold_scale_factor,
            enable_dcp, causal_seqlens_kv_global, use_fp16_softmax: not given;
            uses_shared_paged_kv_idx: True; kv_scale_format: ``"auto"``. Others raise
            NotImplementedError.

    Returns:
        `out`, or (out, lse).
    """
    refuse(sparse_mla_top_k=sparse_mla_top_k or None, sinks=sinks,
           sparse_mla_top_k_lens=sparse_mla_top_k_lens,
           skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
           enable_dcp=enable_dcp or cp_world != 1 or cp_rank != 0,
           causal_seqlens_kv_global=causal_seqlens_kv_global, use_fp16_softmax=use_fp16_softmax,
           uses_shared_paged_kv_idx=None if uses_shared_paged_kv_idx else "False",
           kv_scale_format=None if kv_scale_format == "auto" else kv_scale_format)
    if backend not in ("auto", "trtllm-gen", "xqa", "fa2", "fa3"):
        raise BackendSupportedError(f"backend: is {backend!r}, accepted: auto, trtllm-gen, xqa")
    flat, q_len, cache = _flat(query, kv_cache, kv_lora_rank + qk_rope_head_dim)
    lens = lens_of(seq_lens)
    check_most("max_seq_len", max_seq_len, lens)
    rows = query_rows(flat.shape[0], len(lens), q_len, cum_seq_lens_q)
    if rows is None:
        rows = even_indptr(len(lens), 1)
    check_most("max_q_len", max_q_len, rows[1:] - rows[:-1])
    if workspace_address(workspace_buffer) % 16:
        raise ValueError("workspace_buffer: is not aligned to 16 bytes")
    indptr, indices, _ = listed_pages(block_tables, lens, cache.shape[1])
    device = device_of(query)
    q_code = dtype_code("query", query.dtype)
    sm_scale, out_scale = number("bmm1_scale", bmm1_scale), number("bmm2_scale", bmm2_scale)
    shape = (*query.shape[:-1], kv_lora_rank)
    if out is None:
        out = empty(shape, query)
    elif tuple(out.shape) != shape:
        raise ValueError(f"out: has shape {tuple(out.shape)}, expected {shape}")
    if return_lse and lse is None:
        lse = make_lse(flat)
    # A scale of the latent, which a cache of 8 bits may have, is that of the output and of scores.
    is_quantised = dtype_code("kv_cache", cache.dtype) >= 3
    scale = out_scale if is_quantised and out_scale > 0 else 1.0
    plan = _plan_on(device)
    lib.mla_plan(plan, pack(MLA_PROBLEM, (
        q_code, dtype_code("kv_cache", cache.dtype), dtype_code("out", out.dtype), flat.shape[1],
        kv_lora_rank, qk_rope_head_dim, cache.shape[1], 1, -1, 0, arch_of(device),
        sm_scale / scale, 0.0)), workspace_buffer, rows, indptr, on_device(indices, query),
        lens.astype("int32"))
    lib.mla_run(plan, flat[..., :kv_lora_rank], flat[..., kv_lora_rank:],
                cache[..., :kv_lora_rank], cache[..., kv_lora_rank:],
                out.reshape(flat.shape[0], flat.shape[1], kv_lora_rank), lse, scale, scale)
    if scale != out_scale:
        out *= out_scale
    return (out, lse) if return_lse else out


def xqa_batch_decode_with_kv_cache_mla(query, kv_cache, workspace_buffer, qk_nope_head_dim,
                                       kv_lora_rank, qk_rope_head_dim, block_tables, seq_lens,
                                       max_seq_len, out=None, bmm1_scale=1.0, bmm2_scale=1.0,
                                       sinks=None, enable_pdl=None):
    """trtllm_batch_decode_with_kv_cache_mla() with fewer options."""
    return trtllm_batch_decode_with_kv_cache_mla(
        query, kv_cache, workspace_buffer, qk_nope_head_dim, kv_lora_rank, qk_rope_head_dim,
        block_tables, seq_lens, max_seq_len, out=out, bmm1_scale=bmm1_scale,
        bmm2_scale=bmm2_scale, sinks=sinks, enable_pdl=enable_pdl)
