# SPDX-License-Identifier: Apache-2.0
"""Attention over pages that a table with a row per request lists: plan and run in one call.

The tables are read in host memory at each call, which on a device waits for a copy: where a batch
stays the same over many layers, a wrapper that plans once costs less.
"""
import threading

from .._binding import lib
from .._tensors import dtype_name
from .arguments import as_numpy, even_indptr, like, on_device
from .planned import make_lse, make_out, options, workspace_address
from .record import (
    MASK_CAUSAL,
    MASK_CUSTOM,
    MASK_NONE,
    PROBLEM,
    device_of,
    dtype_code,
    layout_code,
    pack,
)

_plans = threading.local()  # .by_memory: of this thread


def plan_on(device, workspace, make=None):
    """A plan for one call, of attention or what `make` makes. One that was lent memory keeps it, which may be gone by the next call:
    calls without a workspace share another plan, which has its own."""
    by_memory = getattr(_plans, "by_memory", None)
    if by_memory is None:
        by_memory = _plans.by_memory = {}
    key = device, workspace is not None, make
    if key not in by_memory:
        by_memory[key] = (make or lib.attention_plan_make)(*device)
    return by_memory[key]


def lens_of(seq_lens):
    """Lengths as NumPy int64, of int32, int64 or uint32 and any shape."""
    import numpy

    lens = as_numpy(seq_lens)
    if lens.dtype.kind not in "iu":
        raise ValueError(f"seq_lens: is {lens.dtype}, expected integers")
    return lens.reshape(-1).astype(numpy.int64)


def listed_pages(block_tables, lens, page_size):
    """(indptr, indices, last_page_len) of requests of `lens` keys, whose pages are the first of
    each row of `block_tables` [num_requests, most pages]."""
    import numpy

    num_requests = len(lens)
    if len(block_tables.shape) != 2 or block_tables.shape[0] != num_requests:
        raise ValueError(f"block_tables: has shape {tuple(block_tables.shape)}, expected "
                         f"[{num_requests}, most pages]")
    if (lens < 0).any():
        raise ValueError(f"seq_lens: is {lens.min()} for a request, expected 0 or more")
    pages = (lens + page_size - 1) // page_size
    most = block_tables.shape[1]
    if num_requests and pages.max() > most:
        raise ValueError(f"seq_lens: is {lens.max()} for a request, which needs {pages.max()} "
                         f"pages of {page_size}; block_tables has {most} columns")
    indptr = numpy.zeros(num_requests + 1, numpy.int32)
    numpy.cumsum(pages, out=indptr[1:])
    listed = numpy.arange(most) < pages[:, None]
    if getattr(block_tables, "is_cuda", False):
        import torch

        # By places that the host counts: a mask on the device would be waited for.
        places = torch.from_numpy(numpy.flatnonzero(listed))
        indices = torch.take(block_tables, places.to(block_tables.device))
    else:
        indices = as_numpy(block_tables)[listed]
    return indptr, indices, (lens - (pages - 1) * page_size).clip(0).astype(numpy.int32)


def split_cache(kv_cache):
    """(k, v) of a pair, or of one tensor with both planes in its second dimension."""
    if isinstance(kv_cache, (tuple, list)):
        if len(kv_cache) != 2:
            raise ValueError(f"kv_cache: has {len(kv_cache)} tensors, expected (k, v)")
        k, v = kv_cache
    else:
        if len(kv_cache.shape) != 5 or kv_cache.shape[1] != 2:
            raise ValueError(f"kv_cache: has shape {tuple(kv_cache.shape)}, expected a pair (k, v) "
                             "or [num_pages, 2, …] of rank 5")
        k, v = kv_cache[:, 0], kv_cache[:, 1]
    for name, t in (("k", k), ("v", v)):
        if len(t.shape) != 4:
            raise ValueError(f"kv_cache: {name} has shape {tuple(t.shape)}, expected 4 dimensions")
    return k, v


def run(query, k, v, workspace, block_tables, seq_lens, *, kv_layout, qo_indptr, causal,
        sm_scale, window_left=-1, scales=(1.0, 1.0, 1.0), sinks=None, custom_mask=None, out=None,
        out_dtype=None, lse=None, return_lse=False, pos_encoding_mode="NONE",
        logits_soft_cap=None):
    """Attention of ``query [num_tokens, num_qo_heads, head_dim]``; `qo_indptr` is NumPy, or None
    for one token a request."""
    heads, tokens = (2, 1) if kv_layout == "NHD" else (1, 2)
    layout = layout_code(kv_layout)
    page_size = k.shape[tokens]
    lens = lens_of(seq_lens)
    indptr, indices, last_page_len = listed_pages(block_tables, lens, page_size)
    if len(query.shape) != 3:
        raise ValueError(f"query: has shape {tuple(query.shape)}, expected "
                         "[num_tokens, num_qo_heads, head_dim]")
    if workspace is not None and workspace_address(workspace) % 16:
        raise ValueError("workspace_buffer: is not aligned to 16 bytes")
    device = device_of(query)
    if out is None:
        out = make_out(query, v.shape[-1], None if out_dtype is None else dtype_name(out_dtype))
    elif out_dtype is not None and dtype_name(out.dtype) != dtype_name(out_dtype):
        raise ValueError(f"out_dtype: is {dtype_name(out_dtype)}, but out is "
                         f"{dtype_name(out.dtype)}")
    if return_lse and lse is None:
        lse = make_lse(query)
    o = options(pos_encoding_mode, window_left, logits_soft_cap, sm_scale, None, None)
    mask = MASK_CUSTOM if custom_mask is not None else MASK_CAUSAL if causal else MASK_NONE
    record = pack(PROBLEM, (
        dtype_code("query", query.dtype), dtype_code("kv_cache", k.dtype),
        dtype_code("out", out.dtype), query.shape[1], k.shape[heads], query.shape[2],
        v.shape[-1], page_size, layout, mask, window_left, o["pos_encoding"], 0,
        o["sm_scale"], o["logits_soft_cap"], 1.0, 1e4))
    plan = plan_on(device, workspace)
    lib.attention_plan(plan, record, workspace, qo_indptr, indptr, on_device(indices, query),
                       last_page_len, custom_mask, None)
    if sinks is None:
        lib.attention_run(plan, query, k, v, out, lse, *scales)
    else:
        lib.attention_run_with(plan, query, k, v, out, lse, list(scales),
                               [None, None, None, sinks, None, None])
    return (out, lse) if return_lse else out


def query_rows(num_tokens, num_requests, q_len_per_req, cum_seq_lens_q=None):
    """Rows of q of each request, as NumPy int32, or None for one a request."""
    import numpy

    if cum_seq_lens_q is not None:
        return as_numpy(cum_seq_lens_q).astype(numpy.int32)
    q_len = 1 if q_len_per_req is None else q_len_per_req
    if num_tokens != num_requests * q_len:
        raise ValueError(f"query: has {num_tokens} tokens, expected q_len_per_req, {q_len}, of "
                         f"each of {num_requests} requests")
    return None if q_len == 1 else even_indptr(num_requests, q_len)


def draft_mask(mask, qo_indptr, lens, like_query):
    """A mask over each request's newest tokens as one over all its keys.

    Args:
        mask: ``[num_requests, most q_len, words]`` uint16 (or as int16), or
            ``[num_tokens, words]``: bit j of a row: whether it sees the request's new token j.
        qo_indptr: NumPy rows of q.
        lens: NumPy keys of each request.

    Returns:
        ``[sum of q_len · kv_len]`` bool: every token sees all keys before the new ones.
    """
    import numpy

    words = as_numpy(mask)
    if words.dtype.itemsize not in (2, 4) or words.dtype.kind not in "iu":
        raise ValueError(f"mask: is {words.dtype}, expected bits in uint16 or uint32")
    bits = numpy.unpackbits(numpy.ascontiguousarray(words).view(numpy.uint8), axis=-1,
                            bitorder="little").astype(bool)
    parts = []
    for b, kv_len in enumerate(lens):
        begin, end = int(qo_indptr[b]), int(qo_indptr[b + 1])
        q_len = end - begin
        rows = bits[b, :q_len] if bits.ndim == 3 else bits[begin:end]
        if rows.shape[0] < q_len or rows.shape[1] < q_len:
            raise ValueError(f"mask: has shape {words.shape}, request {b} has {q_len} tokens")
        seen = numpy.ones((q_len, int(kv_len)), bool)
        new = min(q_len, int(kv_len))
        seen[:, int(kv_len) - new:] = rows[:, q_len - new:q_len]
        parts.append(seen.reshape(-1))
    return like(numpy.concatenate(parts) if parts else numpy.empty(0, bool), like_query)
