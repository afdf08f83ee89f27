# SPDX-License-Identifier: Apache-2.0
"""The original's decode of queries with a beam dimension, over tables of pages."""
import math

from .arguments import number, refuse
from .block_tables import lens_of, query_rows
from .serving import _decode


def xqa(q, k_cache, v_cache, page_table, seq_lens, output, workspace_buffer, semaphores,
        num_kv_heads, page_size, sinks=None, q_scale=1.0, kv_scale=1.0, sliding_win_size=0,
        kv_layout="NHD", sm_count=None, enable_pdl=None, rcp_out_scale=1.0, q_seq_len=1,
        mask=None, *, q_cu_seq_lens=None, k_sf_cache=None, v_sf_cache=None):
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
    _decode(flat_q, k_cache, v_cache, workspace_buffer, page_table, seq_lens, mask, rows,
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


def xqa_mla(q, k_cache, v_cache, page_table, seq_lens, output, workspace_buffer, semaphores,
            page_size, q_scale=1.0, kv_scale=1.0, sm_count=None, enable_pdl=None):
    """Latent attention of fp8 queries; not implemented yet: BatchMLAPagedAttentionWrapper takes
    queries of 16 and 32 bits."""
    raise NotImplementedError("xqa_mla: latent attention of fp8 queries is not implemented yet; "
                              "BatchMLAPagedAttentionWrapper takes 16-bit queries over fp8 caches")
