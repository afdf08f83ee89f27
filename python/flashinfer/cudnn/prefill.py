# SPDX-License-Identifier: Apache-2.0
"""Prefill as the original hands it to cuDNN."""
from __future__ import annotations

from typing import Any

from .._errors import BackendSupportedError
from .._tensors import Tensor, dtype_name, empty
from ..attention.arguments import as_numpy, check_most, number
from ..attention.block_tables import lens_of, run
from ..attention.planned import make_lse
from .decode import check_offsets, tables_of

# Whether the original's Python package of cuDNN is there: it is not needed.
CUDNN_AVAILABLE = False


def _cudnn_supports_direct_seqlens(*args, **kwargs):
    """Whether cuDNN reads lengths in tokens itself; asked by the original's test files."""
    return False


def _row_starts(actual_seq_lens, offsets, units, unit, name):
    """Rows at which requests begin, from their lengths, or from offsets in elements or tokens."""
    import numpy

    if units not in ("elements", "tokens"):
        raise ValueError(f"batch_offsets_units: is {units!r}, accepted: elements, tokens")
    step = unit if units == "elements" else 1
    if actual_seq_lens is not None:
        lens = lens_of(actual_seq_lens)
        rows = numpy.concatenate([[0], numpy.cumsum(lens)])
        if offsets is not None:
            check_offsets(name, offsets, rows, step)
        return rows.astype(numpy.int32)
    if offsets is None:
        raise ValueError(f"{name}: is None, expected it or the lengths of requests")
    given = as_numpy(offsets).reshape(-1)
    if (given % step).any():
        raise ValueError(f"{name}: is {given}, expected multiples of {step}")
    return (given // step).astype(numpy.int32)


def _ragged(q, k, v, workspace, qo_indptr, kv_indptr, causal, scale, scales, out, lse):
    from ..attention.batch_prefill_ragged import BatchPrefillWithRaggedKVCacheWrapper

    wrapper = BatchPrefillWithRaggedKVCacheWrapper(workspace)
    wrapper.plan(qo_indptr, kv_indptr, q.shape[1], k.shape[1], q.shape[2], v.shape[2],
                 causal=causal, sm_scale=scale, q_data_type=q.dtype, kv_data_type=k.dtype,
                 o_data_type=out.dtype)
    wrapper.run(q, k, v, q_scale=scales[0], k_scale=scales[1], v_scale=scales[2], out=out,
                lse=lse, return_lse=lse is not None)


def cudnn_batch_prefill_with_kv_cache(q: Tensor, k_cache: Tensor, v_cache: Tensor,
                                      scale: float | Tensor, workspace_buffer: Tensor, *,
                                      max_token_per_sequence: int, max_sequence_kv: int,
                                      actual_seq_lens_q: Tensor | None = None,
                                      actual_seq_lens_kv: Tensor | None = None,
                                      block_tables: Tensor | None = None, causal: bool,
                                      return_lse: bool, q_scale: float | Tensor | None = None,
                                      k_scale: float | Tensor | None = None,
                                      v_scale: float | Tensor | None = None,
                                      batch_offsets_q: Tensor | None = None,
                                      batch_offsets_o: Tensor | None = None,
                                      batch_offsets_k: Tensor | None = None,
                                      batch_offsets_v: Tensor | None = None,
                                      batch_offsets_stats: Tensor | None = None,
                                      batch_offsets_units: str = "elements",
                                      out: Tensor | None = None, lse: Tensor | None = None,
                                      is_cuda_graph_compatible: bool = False,
                                      backend: str | None = None,
                                      o_data_type: Any = None) -> tuple[Tensor, Tensor]:
    """Attention of each request's newest tokens over its pages, or over keys in a row.

    Args:
        q: ``[num_tokens, num_qo_heads, head_dim_qk]``, requests one after another.
        k_cache, v_cache: ``[num_pages, num_kv_heads, page_size, head_dim]``; or ``[num_keys,
            num_kv_heads, head_dim]``, requests one after another.
        scale: what q · k is multiplied with.
        workspace_buffer: memory for partial results, 16-byte aligned.
        max_token_per_sequence, max_sequence_kv: at least the largest lengths.
        actual_seq_lens_q, actual_seq_lens_kv: ``[num_requests, 1, 1, 1]`` int32: lengths. Where
            None they follow from the offsets.
        block_tables: ``[num_requests, most pages]`` int32; None: request b is in page b.
        causal: query i sees key j iff j <= kv_len - q_len + i.
        return_lse: also computes lse, base-2 logarithms.
        q_scale, k_scale, v_scale: what stored values are multiplied with: numbers, or tensors of
            one.
        batch_offsets_q, batch_offsets_o, batch_offsets_k, batch_offsets_v, batch_offsets_stats:
            where requests begin, ``[num_requests + 1]``; those of dense tensors. Others raise
            NotImplementedError.
        batch_offsets_units: ``"elements"`` or ``"tokens"``.
        out: ``[num_tokens, num_qo_heads, head_dim_vo]``; made when None.
        lse: float32 ``[num_requests, max_token_per_sequence, num_qo_heads]``, of which rows behind
            a request's tokens keep what they hold (-inf when made here); with batch_offsets_stats
            ``[num_tokens, num_qo_heads]``.
        is_cuda_graph_compatible: accepted, and not needed.
        backend: None or ``"cudnn"``: the fastest here.
        o_data_type: of `out`; q's when None.

    Returns:
        (out, lse); lse is None when not asked for.
    """
    import numpy

    if backend not in (None, "auto", "cudnn", "cubin"):
        raise BackendSupportedError(f"backend: is {backend!r}, accepted: None, cudnn")
    heads, dim = q.shape[1:]
    rows = _row_starts(actual_seq_lens_q, batch_offsets_q, batch_offsets_units, heads * dim,
                       "batch_offsets_q")
    unit = (lambda n: n) if batch_offsets_units == "elements" else (lambda n: 1)
    dim_vo = v_cache.shape[-1]
    check_offsets("batch_offsets_o", batch_offsets_o, rows, unit(heads * dim_vo))
    check_offsets("batch_offsets_stats", batch_offsets_stats, rows, unit(heads))
    check_most("max_token_per_sequence", max_token_per_sequence, rows[1:] - rows[:-1])
    if out is None:
        out = empty((q.shape[0], heads, dim_vo), q,
                    dtype_name(q.dtype if o_data_type is None else o_data_type))
    scales = [number(name, s) for name, s in (("q_scale", q_scale), ("k_scale", k_scale),
                                              ("v_scale", v_scale))]
    packed = make_lse(q) if return_lse else None
    if packed is not None and batch_offsets_stats is not None and lse is not None:
        packed = lse
    if len(k_cache.shape) == 3:
        keys = _row_starts(actual_seq_lens_kv, batch_offsets_k, batch_offsets_units,
                           k_cache.shape[1] * k_cache.shape[2], "batch_offsets_k")
        check_offsets("batch_offsets_v", batch_offsets_v, keys,
                      unit(v_cache.shape[1] * v_cache.shape[2]))
        check_most("max_sequence_kv", max_sequence_kv, keys[1:] - keys[:-1])
        _ragged(q, k_cache, v_cache, workspace_buffer, rows, keys, causal, scale, scales, out,
                packed)
    else:
        tables = tables_of(k_cache, block_tables, len(rows) - 1)
        if actual_seq_lens_kv is None:
            raise ValueError("actual_seq_lens_kv: is None, expected lengths with pages")
        lens = lens_of(actual_seq_lens_kv)
        check_most("max_sequence_kv", max_sequence_kv, lens)
        run(q, k_cache, v_cache, workspace_buffer, tables, lens, kv_layout="HND", qo_indptr=rows,
            causal=causal, sm_scale=scale, scales=scales, out=out, lse=packed,
            return_lse=return_lse)
    if packed is None or batch_offsets_stats is not None:
        return out, packed
    if lse is None:
        lse = empty((len(rows) - 1, int(max_token_per_sequence), heads), q, "float32")
        lse[...] = -numpy.inf
    for b in range(len(rows) - 1):
        begin, end = int(rows[b]), int(rows[b + 1])
        lse[b, :end - begin] = packed[begin:end]
    return out, lse
