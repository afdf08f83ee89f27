# SPDX-License-Identifier: Apache-2.0
"""Decode as the original hands it to cuDNN."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor
from ..attention.arguments import as_numpy, check_most, like
from ..attention.block_tables import lens_of, run
from .._errors import BackendSupportedError

# Whether the original's Python package of cuDNN is there: it is not needed.
CUDNN_AVAILABLE = False


def check_offsets(name: str, offsets: Tensor, rows: Tensor, unit: int) -> None:
    """Raises when offsets are not those of rows that lie one after another."""
    import numpy

    if offsets is not None and not numpy.array_equal(as_numpy(offsets).reshape(-1), rows * unit):
        raise BackendSupportedError(f"{name}: is {as_numpy(offsets).reshape(-1)}, accepted: dense "
                                    f"requests one after another, {rows * unit}")


def tables_of(k_cache: Tensor, block_tables: Tensor, num_requests: int) -> Any:
    """`block_tables`, or those of a cache whose request b is in page b."""
    import numpy

    if block_tables is not None:
        return block_tables
    if k_cache.shape[0] < num_requests:
        raise ValueError(f"k_cache: has {k_cache.shape[0]} pages, expected one for each of "
                         f"{num_requests} requests without block_tables")
    return like(numpy.arange(num_requests, dtype=numpy.int32)[:, None], k_cache)


def cudnn_batch_decode_with_kv_cache(q: Tensor, k_cache: Tensor, v_cache: Tensor,
                                     scale: float | Tensor, workspace_buffer: Tensor, *,
                                     max_sequence_kv: int, actual_seq_lens_kv: Tensor | None = None,
                                     block_tables: Tensor | None = None,
                                     is_cuda_graph_compatible: bool = False,
                                     batch_offsets_q: Tensor | None = None,
                                     batch_offsets_o: Tensor | None = None,
                                     batch_offsets_k: Tensor | None = None,
                                     batch_offsets_v: Tensor | None = None,
                                     out: Tensor | None = None) -> Tensor:
    """Attention of each request's newest token over its pages.

    Args:
        q: ``[num_requests, num_qo_heads, head_dim]``.
        k_cache, v_cache: ``[num_pages, num_kv_heads, page_size, head_dim]``; without block_tables
            request b is in page b.
        scale: what q · k is multiplied with.
        workspace_buffer: memory for partial results, 16-byte aligned.
        max_sequence_kv: at least the largest length.
        actual_seq_lens_kv: ``[num_requests, 1, 1, 1]`` int32: keys of each request; None: full
            pages.
        block_tables: ``[num_requests, most pages]`` int32.
        is_cuda_graph_compatible: accepted, and not needed.
        batch_offsets_q, batch_offsets_o, batch_offsets_k, batch_offsets_v: elements at which
            requests begin; those of dense tensors. Others raise NotImplementedError.
        out: as q; made when None.

    Returns:
        `out`.
    """
    import numpy

    num_requests = q.shape[0]
    tables = tables_of(k_cache, block_tables, num_requests)
    if actual_seq_lens_kv is None:
        lens = numpy.full(num_requests, tables.shape[1] * k_cache.shape[2], numpy.int64)
    else:
        lens = lens_of(actual_seq_lens_kv)
    check_most("max_sequence_kv", max_sequence_kv, lens)
    rows = numpy.arange(num_requests + 1)
    check_offsets("batch_offsets_q", batch_offsets_q, rows, q.shape[1] * q.shape[2])
    check_offsets("batch_offsets_o", batch_offsets_o, rows, q.shape[1] * v_cache.shape[-1])
    for name, offsets, cache in (("batch_offsets_k", batch_offsets_k, k_cache),
                                 ("batch_offsets_v", batch_offsets_v, v_cache)):
        check_offsets(name, offsets, rows, int(numpy.prod(cache.shape[1:])))
    return run(q, k_cache, v_cache, workspace_buffer, tables, lens, kv_layout="HND",
               qo_indptr=None, causal=False, sm_scale=scale, out=out)
