# SPDX-License-Identifier: Apache-2.0
"""Latent attention over tables of pages: plan and run in one call."""
from __future__ import annotations

from dataclasses import dataclass

from .._binding import lib
from .._errors import BackendSupportedError
from .._tensors import Tensor, as_dtype, dtype_name, empty
from .arguments import (
    as_numpy,
    check_most,
    even_indptr,
    like,
    number,
    on_device,
    refuse,
)
from .block_tables import lens_of, listed_pages, plan_on, query_rows
from .planned import make_lse, workspace_address
from .record import MLA_PROBLEM, arch_of, device_of, dtype_code, pack


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


def _chosen_tokens(block_tables, top_k, top_k_lens, seq_lens, rows):
    """(indptr, indices, lengths) of the keys that each query chose, of a table ``[…, top_k]``;
    `rows` are those of q, as NumPy."""
    import numpy

    num_tokens = int(rows[-1])
    if block_tables.shape[-1] != top_k or len(block_tables.reshape(-1, top_k)) != num_tokens:
        raise ValueError(f"block_tables: has shape {tuple(block_tables.shape)}, expected "
                         f"sparse_mla_top_k, {top_k}, keys for each of {num_tokens} queries")
    table = block_tables.reshape(-1, top_k)
    most = numpy.repeat(seq_lens, numpy.diff(rows))
    if top_k_lens is not None:
        given = lens_of(top_k_lens)
        if len(given) == len(seq_lens):
            given = numpy.repeat(given, numpy.diff(rows))
        if len(given) != num_tokens:
            raise ValueError(f"sparse_mla_top_k_lens: has {len(given)} numbers, expected one for "
                             f"each of {len(seq_lens)} requests or {num_tokens} queries")
        most = numpy.minimum(most, given)
    limits = like(most[:, None], table)
    chosen = (table >= 0) & (like(numpy.arange(top_k), table) < limits)
    lens = as_numpy(chosen.sum(-1)).astype(numpy.int32)
    indptr = numpy.zeros(num_tokens + 1, numpy.int32)
    numpy.cumsum(lens, out=indptr[1:])
    return indptr, as_dtype(table[chosen], "int32"), lens


def _with_pages_of_a_token(cache):
    """A cache ``[num_pages, page_size, width]`` as ``[num_pages · page_size, 1, width]``."""
    pages, tokens, width = cache.shape
    flat = cache.reshape(pages * tokens, 1, width)
    if workspace_address(flat) != workspace_address(cache):
        raise ValueError("kv_cache: its pages do not lie one after another, as sparse_mla_top_k "
                         "needs")
    return flat


def _keys_of_a_rank(block_tables, seq_lens, rows, page_size, bounds, world, rank):
    """(indptr, indices, lengths) of the local keys that each query sees, of NumPy lengths and rows.

    The rank has the keys at positions world · i + rank of each request, whose newest query sees
    those before `bounds`, and a query before it one less."""
    import numpy

    requests = numpy.repeat(numpy.arange(len(seq_lens)), numpy.diff(rows))
    behind = rows[1:][requests] - 1 - numpy.arange(len(requests))  # newer queries of the request
    seen = (bounds[requests] - behind - rank + world - 1) // world
    lens = numpy.clip(seen, 0, seq_lens[requests])
    table = block_tables[like(requests, block_tables)]
    indptr, indices, _ = listed_pages(table, lens, page_size)
    return indptr, indices, lens


def _check_ranks(enable_dcp, cp_world, cp_rank, bounds, return_lse, num_requests, top_k):
    """The bounds as NumPy, where keys are shared among ranks; else None."""
    if not enable_dcp:
        if cp_world != 1 or cp_rank != 0 or bounds is not None:
            raise ValueError(f"cp_world, cp_rank, causal_seqlens_kv_global: are {cp_world}, "
                             f"{cp_rank} and {'None' if bounds is None else 'given'}, but are of "
                             "no use without enable_dcp")
        return None
    if not return_lse:
        raise ValueError("return_lse: is False, but states of ranks are merged by their logarithms")
    if top_k:
        raise ValueError("sparse_mla_top_k: cannot be had along with enable_dcp")
    if cp_world < 1 or not 0 <= cp_rank < cp_world:
        raise ValueError(f"cp_world, cp_rank: are {cp_world} and {cp_rank}, expected a rank below "
                         "the ranks there are")
    if bounds is None:
        raise ValueError("causal_seqlens_kv_global: is None, but is needed with enable_dcp")
    bounds = lens_of(bounds)
    if len(bounds) != num_requests:
        raise ValueError(f"causal_seqlens_kv_global: has {len(bounds)} numbers, expected "
                         f"{num_requests}")
    return bounds


def trtllm_batch_decode_with_kv_cache_mla(
        query: Tensor, kv_cache: Tensor | tuple[Tensor, Tensor], workspace_buffer: Tensor,
        qk_nope_head_dim: int, kv_lora_rank: int, qk_rope_head_dim: int, block_tables: Tensor,
        seq_lens: Tensor, max_seq_len: int, sparse_mla_top_k: int = 0, out: Tensor | None = None,
        bmm1_scale: float | Tensor = 1.0, bmm2_scale: float | Tensor = 1.0,
        sinks: Tensor | None = None, skip_softmax_threshold_scale_factor: float | None = None,
        enable_pdl: bool | None = None, backend: str = "auto", is_var_seq: bool = True,
        uses_shared_paged_kv_idx: bool = True, lse: Tensor | None = None, return_lse: bool = False,
        cute_dsl_impl: str = "auto", kv_scale_format: str = "auto",
        cum_seq_lens_q: Tensor | None = None, max_q_len: int | None = None,
        multi_ctas_kv_counter_buffer: Tensor | None = None,
        sparse_mla_top_k_lens: Tensor | None = None, enable_dcp: bool = False, cp_world: int = 1,
        cp_rank: int = 0, causal_seqlens_kv_global: Tensor | None = None,
        use_fp16_softmax: bool | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """Latent attention of each request's newest tokens, causal, over its pages.

    Args:
        query: ``[num_requests, q_len, num_heads, kv_lora_rank + qk_rope_head_dim]``, or with
            cum_seq_lens_q ``[num_tokens, num_heads, …]``. Of 8 bits it is read as bfloat16, which
            has all its values.
        kv_cache: ``[num_pages, page_size, kv_lora_rank + qk_rope_head_dim]``, also with a second
            dimension of 1.
        workspace_buffer: memory for partial results, 16-byte aligned; need not be zeros.
        qk_nope_head_dim: accepted: of heads before absorption.
        kv_lora_rank, qk_rope_head_dim: widths of the latent and of the part with positions.
        block_tables: ``[num_requests, most pages]`` int32; with sparse_mla_top_k ``[num_requests,
            q_len, sparse_mla_top_k]``: the keys that each query sees, ``page · page_size + place``,
            -1 for none.
        seq_lens: ``[num_requests]``: keys of each request, the new tokens among them.
        max_seq_len: at least the largest of them.
        sparse_mla_top_k: keys that a query sees at most; 0: all.
        sparse_mla_top_k_lens: for each request or query, how many of its list count; None: all.
        out: ``[num_requests, q_len, num_heads, kv_lora_rank]``; made when None, of q's dtype or
            bfloat16.
        bmm1_scale: what q · k is multiplied with: a number or a tensor of one.
        bmm2_scale: what the output is multiplied with, likewise.
        enable_pdl, is_var_seq, cute_dsl_impl, multi_ctas_kv_counter_buffer: accepted, and not
            needed.
        backend: ``"auto"``, ``"trtllm-gen"`` or ``"xqa"``: the fastest here.
        lse: ``[num_tokens, num_heads]`` float32; made when wanted.
        return_lse: also returns `lse`, base-2 logarithms.
        cum_seq_lens_q, max_q_len: rows of q, where requests differ.
        enable_dcp: keys are shared among cp_world ranks, and the cache has those at positions
            ``cp_world · i + cp_rank`` of each request; seq_lens counts these. Results of all ranks
            are to be merged, so return_lse is needed.
        causal_seqlens_kv_global: with enable_dcp ``[num_requests]``: the newest token sees the keys
            of all ranks before this position, and a token before it one less.
        sinks, skip_softmax_threshold_scale_factor, use_fp16_softmax: not given;
            uses_shared_paged_kv_idx: True; kv_scale_format: ``"auto"``. Others raise
            NotImplementedError.

    Returns:
        `out`, or (out, lse).
    """
    refuse(sinks=sinks,
           skip_softmax_threshold_scale_factor=skip_softmax_threshold_scale_factor,
           use_fp16_softmax=use_fp16_softmax,
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
    bounds = _check_ranks(enable_dcp, cp_world, cp_rank, causal_seqlens_kv_global, return_lse,
                          len(lens), sparse_mla_top_k)
    if bounds is not None:
        indptr, indices, lens = _keys_of_a_rank(block_tables, lens, rows, cache.shape[1], bounds,
                                                cp_world, cp_rank)
        rows = even_indptr(flat.shape[0], 1)
    elif sparse_mla_top_k:
        cache = _with_pages_of_a_token(cache)
        indptr, indices, lens = _chosen_tokens(block_tables, sparse_mla_top_k,
                                               sparse_mla_top_k_lens, lens, rows)
        rows = even_indptr(flat.shape[0], 1)
    elif sparse_mla_top_k_lens is not None:
        raise ValueError("sparse_mla_top_k_lens: is of no use without sparse_mla_top_k")
    else:
        indptr, indices, _ = listed_pages(block_tables, lens, cache.shape[1])
    device = device_of(query)
    if dtype_name(query.dtype) in ("float8_e4m3fn", "float8_e5m2"):
        flat = as_dtype(flat, "bfloat16")
    q_code = dtype_code("query", flat.dtype)
    sm_scale, out_scale = number("bmm1_scale", bmm1_scale), number("bmm2_scale", bmm2_scale)
    shape = (*query.shape[:-1], kv_lora_rank)
    if out is None:
        out = empty(shape, flat)
    elif tuple(out.shape) != shape:
        raise ValueError(f"out: has shape {tuple(out.shape)}, expected {shape}")
    if return_lse and lse is None:
        lse = make_lse(flat)
    # A scale of the latent, which a cache of 8 bits may have, is that of the output and of scores.
    is_quantised = dtype_code("kv_cache", cache.dtype) >= 3
    scale = out_scale if is_quantised and out_scale > 0 else 1.0
    plan = plan_on(device, workspace_buffer, lib.mla_plan_make)
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


def xqa_batch_decode_with_kv_cache_mla(query: Tensor, kv_cache: Tensor | tuple[Tensor, Tensor],
                                       workspace_buffer: Tensor, qk_nope_head_dim: int,
                                       kv_lora_rank: int, qk_rope_head_dim: int,
                                       block_tables: Tensor, seq_lens: Tensor, max_seq_len: int,
                                       out: Tensor | None = None, bmm1_scale: float | Tensor = 1.0,
                                       bmm2_scale: float | Tensor = 1.0,
                                       sinks: Tensor | None = None,
                                       enable_pdl: bool | None = None) -> Tensor:
    """trtllm_batch_decode_with_kv_cache_mla() with fewer options."""
    return trtllm_batch_decode_with_kv_cache_mla(
        query, kv_cache, workspace_buffer, qk_nope_head_dim, kv_lora_rank, qk_rope_head_dim,
        block_tables, seq_lens, max_seq_len, out=out, bmm1_scale=bmm1_scale,
        bmm2_scale=bmm2_scale, sinks=sinks, enable_pdl=enable_pdl)
