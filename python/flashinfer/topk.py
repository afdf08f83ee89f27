# SPDX-License-Identifier: Apache-2.0
"""The largest elements of rows, and their places in a cache.

The same input always gives the same output, and ties are broken by index, whatever the arguments
`deterministic` and `dsa_graph_safe`. NaN counts as larger than everything.
"""
from __future__ import annotations

import enum
from typing import Any

from ._binding import lib
from ._tensors import as_dtype, empty, framework_of


class TopKTieBreak(enum.IntEnum):
    """Which of the elements that equal the smallest one kept are kept."""

    NONE = 0  #: any; here those of the lowest index
    SMALL = 1  #: those of the lowest index
    LARGE = 2  #: those of the highest index


def _takes_highest(tie_break: int) -> bool:
    if tie_break not in (0, 1, 2):
        raise ValueError(f"tie_break: is {tie_break!r}, accepted: TopKTieBreak.NONE, SMALL, LARGE")
    return tie_break == 2


def _check_k(k: int) -> None:
    if k < 0:
        raise ValueError(f"k: is {k}, accepted: 0 or more")


def _output(name: str, out: Any, shape: tuple, like: Any) -> Any:
    """`out`, or a new int32 tensor of `shape` when that is None."""
    if out is None:
        return empty(shape, like, "int32")
    if tuple(out.shape) != shape:
        raise ValueError(f"{name}: shape is {list(out.shape)}, expected {list(shape)}")
    return out


def top_k(input: Any, k: int, sorted: bool = False, deterministic: bool = False,
          tie_break: int = TopKTieBreak.NONE, dsa_graph_safe: bool = False) -> tuple[Any, Any]:
    """The `k` largest elements of each row and their columns.

    Args:
        input: ``[num_rows, num_cols]`` float32, float16 or bfloat16.
        k: at most `num_cols`; the places beyond it hold -inf and -1.
        sorted: by (value descending, index ascending); else by index alone.
        deterministic: accepted; the result is always repeatable.
        tie_break: see :class:`TopKTieBreak`.
        dsa_graph_safe: accepted; calls are always safe in CUDA graphs.

    Returns:
        ``[num_rows, k]`` values in the dtype of `input`, and ``[num_rows, k]`` int64 columns.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    _check_k(k)
    values = empty((input.shape[0], k), input)
    indices = empty((input.shape[0], k), input, "int64")
    lib.top_k(input, values, indices, sorted, _takes_highest(tie_break), None, None)
    return values, indices


def _places(tokens: Any, table: Any, requests: Any, starts: Any, page_size: int) -> Any:
    """Tokens, counted from the entry `starts` of their request's row, as places in the cache."""
    framework = framework_of(tokens)
    is_token = tokens >= 0
    safe = framework.where(is_token, tokens, framework.zeros_like(tokens))
    columns = as_dtype(safe // page_size, "int64") + as_dtype(starts, "int64")[:, None]
    places = table[as_dtype(requests, "int64")[:, None], columns] * page_size + safe % page_size
    return framework.where(is_token, places, framework.full_like(places, -1))


def top_k_page_table_transform(input: Any, src_page_table: Any, lengths: Any, k: int,
                               row_to_batch: Any = None, deterministic: bool = False,
                               tie_break: int = TopKTieBreak.NONE, dsa_graph_safe: bool = False,
                               row_starts: Any = None, page_table_row_starts: Any = None, *,
                               page_size: int = 1, out: Any = None,
                               out_raw_indices: Any = None) -> Any:
    """The `k` tokens of each row with the largest scores, as places in a paged cache.

    Token t of a row becomes ``table[start + t // page_size] · page_size + t % page_size``, `table`
    being the row of `src_page_table` of the row's request. A row of at most `k` tokens gives all of
    them; in every row they are in the order of t.

    Args:
        input: ``[num_rows, num_cols]`` scores, float32, float16 or bfloat16.
        src_page_table: ``[num_requests, max_pages]`` int32.
        lengths: ``[num_rows]`` int32, the tokens of each row.
        k: tokens to keep.
        row_to_batch: ``[num_rows]`` int32, the request of each row; None: row i is of request i.
        deterministic, tie_break, dsa_graph_safe: as in :func:`top_k`.
        row_starts: ``[num_rows]`` int32, the column of each row's token 0; None: 0.
        page_table_row_starts: ``[num_rows]`` int32, the entry of the request's table at which the
            row's token 0 is; None: `row_starts`.
        page_size: tokens of a page.
        out: ``[num_rows, k]`` int32; made when None.
        out_raw_indices: ``[num_rows, k]`` int32: also receives t, or -1.

    Returns:
        `out`; after the last place it holds -1.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    _check_k(k)
    highest = _takes_highest(tie_break)
    num_rows = input.shape[0]
    out = _output("out", out, (num_rows, k), input)
    starts = row_starts if page_table_row_starts is None else page_table_row_starts
    if starts is None:
        lib.top_k_page_table_transform(input, src_page_table, row_to_batch, page_size, out, highest,
                                       lengths)
        if out_raw_indices is not None:
            lib.top_k(input, None, out_raw_indices, False, highest, None, lengths)
        return out
    tokens = _output("out_raw_indices", out_raw_indices, (num_rows, k), input)
    lib.top_k(input, None, tokens, False, highest, row_starts, lengths)
    if row_to_batch is None:
        framework = framework_of(input)
        one = framework.ones_like(lengths)
        row_to_batch = framework.cumsum(one, 0) - 1
    out[:] = _places(tokens, src_page_table, row_to_batch, starts, page_size)
    return out


def top_k_ragged_transform(input: Any, offsets: Any, lengths: Any, k: int,
                           deterministic: bool = False, tie_break: int = TopKTieBreak.NONE,
                           dsa_graph_safe: bool = False, row_starts: Any = None) -> Any:
    """The `k` tokens of each row with the largest scores, as ``offsets[row] + t``.

    Args:
        input: ``[num_rows, num_cols]`` scores, float32, float16 or bfloat16.
        offsets: ``[num_rows]`` int32, added to each row's tokens.
        lengths: ``[num_rows]`` int32, the tokens of each row.
        k: tokens to keep.
        deterministic, tie_break, dsa_graph_safe: as in :func:`top_k`.
        row_starts: ``[num_rows]`` int32, the column of each row's token 0; None: 0.

    Returns:
        ``[num_rows, k]`` int32, in the order of t; after the last it holds -1.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    _check_k(k)
    out = empty((input.shape[0], k), input, "int32")
    lib.top_k_ragged_transform(input, offsets, out, _takes_highest(tie_break), row_starts, lengths)
    return out


def can_implement_filtered_topk() -> bool:
    """False: there is one algorithm, and no other to choose by FLASHINFER_TOPK_ALGO."""
    return False


def can_use_clusters_topk(device: Any, deterministic: bool, tie_break: int,
                          dsa_graph_safe: bool) -> bool:
    """False: the functions that are named after clusters run the one algorithm there is."""
    return False


def get_fast_topk_clusters(batch_size: int) -> int:
    """1: rows are not spread over clusters of blocks."""
    return 1


def topk_clusters_exact(logits: Any, top_k: int, output_values: bool = False, out_dtype: Any = None,
                        pdl: bool = False) -> tuple[Any, Any]:
    """:func:`top_k` with the outputs in the other order.

    Args:
        logits: ``[num_rows, num_cols]`` float32, float16 or bfloat16.
        top_k: elements to keep.
        output_values: whether to give the values.
        out_dtype: of the columns: int32 (None) or int64.
        pdl: accepted; launches overlap where the GPU allows it.

    Returns:
        ``[num_rows, top_k]`` columns in ascending order, and the values or None.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    _check_k(top_k)
    shape = (logits.shape[0], top_k)
    indices = empty(shape, logits, "int32" if out_dtype is None else out_dtype)
    values = empty(shape, logits) if output_values else None
    lib.top_k(logits, values, indices, False, False, None, None)
    return indices, values


def topk_clusters_page_table_transform(logits: Any, seq_lens: Any, src_page_table: Any, top_k: int,
                                       pdl: bool = False) -> Any:
    """:func:`top_k_page_table_transform` with pages of one token.

    Args:
        logits: ``[num_rows, num_cols]`` float32, float16 or bfloat16.
        seq_lens: ``[num_rows]`` int32.
        src_page_table: ``[num_rows, max_pages]`` int32.
        top_k: tokens to keep.
        pdl: accepted; launches overlap where the GPU allows it.

    Returns:
        ``[num_rows, top_k]`` int32.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return top_k_page_table_transform(logits, src_page_table, seq_lens, top_k)


def topk_clusters_ragged_transform(logits: Any, seq_lens: Any, offsets: Any, top_k: int,
                                   pdl: bool = False) -> Any:
    """:func:`top_k_ragged_transform`.

    Args:
        logits: ``[num_rows, num_cols]`` float32, float16 or bfloat16.
        seq_lens: ``[num_rows]`` int32.
        offsets: ``[num_rows]`` int32.
        top_k: tokens to keep.
        pdl: accepted; launches overlap where the GPU allows it.

    Returns:
        ``[num_rows, top_k]`` int32.

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    return top_k_ragged_transform(logits, offsets, seq_lens, top_k)
