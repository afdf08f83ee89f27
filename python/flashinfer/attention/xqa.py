# SPDX-License-Identifier: Apache-2.0
"""The original's decode of queries with a beam dimension, over tables of pages."""
from __future__ import annotations

import math

from .._errors import BackendSupportedError
from .._tensors import Tensor
from .arguments import number, refuse
from .block_tables import lens_of, query_rows
from .mla_tables import trtllm_batch_decode_with_kv_cache_mla
from .serving import _decode


def xqa(q: Tensor, k_cache: Tensor, v_cache: Tensor, page_table: Tensor, seq_lens: Tensor,
        output: Tensor, workspace_buffer: Tensor, semaphores: Tensor, num_kv_heads: int,
        page_size: int, sinks: Tensor | None = None, q_scale: float | Tensor = 1.0,
        kv_scale: float | Tensor = 1.0, sliding_win_size: int = 0, kv_layout: str = "NHD",
        sm_count: int | None = None, enable_pdl: bool | None = None,
        rcp_out_scale: float | Tensor = 1.0, q_seq_len: int = 1, mask: Tensor | None = None, *,
        q_cu_seq_lens: Tensor | None = None, k_sf_cache: Tensor | None = None,
        v_sf_cache: Tensor | None = None) -> None:
    """Attention of each request's newest token, or tokens, over its pages, into `output`.

    Args:
        q: ``[num_requests, 1, num_qo_heads, head_dim]``, or with several tokens
            ``[num_requests, 1, q_seq_len, num_qo_heads, head_dim]``, or with q_cu_seq_lens
            ``[num_tokens, num_qo_heads, head_dim]``.
        k_cache, v_cache: ``[num_pages, page_size, num_kv_heads, head_dim]`` (HND: the middle two
            the other way round).
        page_table: ``[num_requests, most pages]`` int32.
        seq_lens: ``[num_requests, 1]`` uint32: keys of each request, the new tokens among them.
        output: as q.
        workspace_buffer: memory for partial results, 16-byte aligned.
        semaphores, sm_count, enable_pdl: accepted, and not needed.
        num_kv_heads, page_size: those of the cache.
        sinks: ``[num_kv_heads, group_size]`` float32: a logit more in each softmax.
        q_scale, kv_scale: what stored values are multiplied with; scores are also divided by
            √head_dim.
        sliding_win_size: keys that a query sees, itself among them; 0: all.
        rcp_out_scale: what the output is multiplied with.
        q_seq_len: new tokens of each request, which are causal among themselves.
        mask: bits as of trtllm_batch_decode_with_kv_cache().
        q_cu_seq_lens: ``[num_requests + 1]`` int32: rows of q, where requests differ.
        k_sf_cache, v_sf_cache: None; raise NotImplementedError.
    """
    refuse(k_sf_cache=k_sf_cache, v_sf_cache=v_sf_cache)
    heads, tokens = (2, 1) if kv_layout == "NHD" else (1, 2)
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if len(cache.shape) != 4 or (cache.shape[heads], cache.shape[tokens]) != (num_kv_heads,
                                                                                 page_size):
            raise ValueError(f"{name}: has shape {tuple(cache.shape)}, expected pages of "
                             f"page_size, {page_size}, and num_kv_heads, {num_kv_heads}")
    if tuple(output.shape) != tuple(q.shape):
        raise ValueError(f"output: has shape {tuple(output.shape)}, expected {tuple(q.shape)}")
    if q_cu_seq_lens is None and (len(q.shape) not in (4, 5) or q.shape[1] != 1):
        raise ValueError(f"q: has shape {tuple(q.shape)}, expected [num_requests, 1, …]: beams of "
                         "one")
    flat_q = q.reshape(-1, *q.shape[-2:])
    flat_out = output.reshape(-1, *output.shape[-2:])
    rows = query_rows(flat_q.shape[0], page_table.shape[0], q_seq_len, q_cu_seq_lens)
    scale = number("kv_scale", kv_scale)
    _decode(flat_q, k_cache, v_cache, workspace_buffer, page_table, lens_of(seq_lens), mask, rows,
            kv_layout=kv_layout,
            sm_scale=number("q_scale", q_scale) * scale / math.sqrt(q.shape[-1]),
            window_left=sliding_win_size - 1 if sliding_win_size > 0 else -1,
            scales=(1.0, 1.0, scale * number("rcp_out_scale", rcp_out_scale)),
            sinks=None if sinks is None else sinks.reshape(-1), out=flat_out)
    if not _shares_memory(flat_out, output):
        output[...] = flat_out.reshape(output.shape)


def _shares_memory(a, b):
    from .planned import workspace_address

    return workspace_address(a) == workspace_address(b)


def xqa_mla(q: Tensor, k_cache: Tensor, v_cache: Tensor, page_table: Tensor, seq_lens: Tensor,
            output: Tensor, workspace_buffer: Tensor, semaphores: Tensor, page_size: int,
            q_scale: float | Tensor = 1.0, kv_scale: float | Tensor = 1.0,
            sm_count: int | None = None, enable_pdl: bool | None = None) -> None:
    """Latent attention of each request's newest token over its pages, into `output`.

    Args:
        q: ``[num_requests, 1, num_heads, 576]`` float8_e4m3fn, bfloat16 or float16: a latent of
            512 and 64 with positions.
        k_cache: ``[num_pages, page_size, 576]``, also with a second dimension of 1.
        v_cache: the same memory: values are the first 512 of a key.
        page_table: ``[num_requests, most pages]`` int32.
        seq_lens: ``[num_requests, 1]`` uint32: keys of each request, the new token among them.
        output: ``[num_requests, 1, num_heads, 512]`` bfloat16.
        workspace_buffer: memory for partial results, 16-byte aligned.
        semaphores, sm_count, enable_pdl: accepted, and not needed.
        page_size: that of the cache.
        q_scale, kv_scale: what stored values are multiplied with; scores are also divided by √192,
            the width of heads before absorption.
    """
    rank, rope = 512, 64
    for name, x, last in (("q", q, rank + rope), ("output", output, rank)):
        if len(x.shape) != 4 or x.shape[1] != 1 or x.shape[3] != last:
            raise ValueError(f"{name}: has shape {tuple(x.shape)}, expected [num_requests, 1, "
                             f"num_heads, {last}]")
    if tuple(output.shape[:3]) != tuple(q.shape[:3]):
        raise ValueError(f"output: has shape {tuple(output.shape)}, q {tuple(q.shape)}")
    if k_cache.shape[-2] != page_size:
        raise ValueError(f"k_cache: has shape {tuple(k_cache.shape)}, expected pages of page_size, "
                         f"{page_size}")
    if v_cache is not None and not _shares_memory(k_cache, v_cache):
        raise BackendSupportedError("v_cache: lies elsewhere than k_cache, accepted: the same "
                                    "memory, of whose keys values are the first 512")
    scale = number("kv_scale", kv_scale)
    trtllm_batch_decode_with_kv_cache_mla(
        q, k_cache, workspace_buffer, rank // 4, rank, rope, page_table, seq_lens, None, out=output,
        bmm1_scale=number("q_scale", q_scale) * scale / math.sqrt(192), bmm2_scale=scale)
