# SPDX-License-Identifier: Apache-2.0
"""flashinfer.topk against sorting."""
import numpy as np
import pytest

import flashinfer
from flashinfer import TopKTieBreak, topk

DTYPES = ["float32", "float16", "bfloat16"]


def expected_columns(row, k, highest=False):
    """The columns of the k largest of a row, ascending; NaN is the largest."""
    columns = np.arange(len(row))
    key = np.where(np.isnan(row), np.inf, row)
    return np.sort(np.lexsort((-columns if highest else columns, -key, ~np.isnan(row)))[:k])


def padded(columns, k):
    return np.concatenate([columns, np.full(k - len(columns), -1)])


def int32(tensors, values):
    return tensors.make(np.array(values, np.int32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [0, 1, 50, 1000])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_top_k(tensors, rng, dtype, k, is_sorted):
    x = tensors.make(rng.standard_normal((3, 1000)), dtype)
    values, columns = flashinfer.top_k(x, k, sorted=is_sorted)
    assert values.dtype == x.dtype and columns.dtype == tensors.dtype("int64")
    values, columns = tensors.read(values), tensors.read(columns)
    assert values.shape == columns.shape == (3, k)
    for row, given in enumerate(tensors.read(x)):
        np.testing.assert_array_equal(np.sort(columns[row]), expected_columns(given, k))
        np.testing.assert_array_equal(values[row], given[columns[row]])
        if is_sorted:
            order = np.lexsort((columns[row], -values[row]))
            np.testing.assert_array_equal(order, np.arange(k))


@pytest.mark.parametrize("tie_break", list(TopKTieBreak))
def test_ties(tensors, tie_break):
    x = tensors.make(np.tile(np.arange(64) / 64, (2, 100)), "bfloat16")
    values, columns = flashinfer.top_k(x, 130, tie_break=tie_break)
    wanted = expected_columns(tensors.read(x)[0], 130, tie_break == TopKTieBreak.LARGE)
    np.testing.assert_array_equal(tensors.read(columns), [wanted, wanted])
    assert (tensors.read(values) >= 62 / 64).all()


def test_infinite_values_and_nan(tensors):
    x = tensors.make(np.array([[1, np.nan, -np.inf, np.inf, 0]]), "float32")
    columns = tensors.read(flashinfer.top_k(x, 3, sorted=True)[1])
    assert columns.tolist() == [[1, 3, 0]]
    columns = tensors.read(flashinfer.top_k(x, 7)[1])
    assert columns.tolist() == [[0, 1, 2, 3, 4, -1, -1]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_ragged_transform(tensors, rng, dtype):
    x = tensors.make(rng.standard_normal((5, 300)), dtype)
    lengths, offsets, starts = [0, 3, 40, 299, 200], [10, 20, 0, 1000, 7], [0, 5, 260, 1, 100]
    for with_starts in (False, True):
        result = tensors.read(flashinfer.top_k_ragged_transform(
            x, int32(tensors, offsets), int32(tensors, lengths), 40,
            row_starts=int32(tensors, starts) if with_starts else None))
        assert result.dtype == np.int32
        for row, given in enumerate(tensors.read(x)):
            start = starts[row] if with_starts else 0
            columns = expected_columns(given[start:start + lengths[row]], 40)
            np.testing.assert_array_equal(result[row], padded(columns + offsets[row], 40))


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("form", ["plain", "row_to_batch", "row_starts", "page_table_row_starts"])
@pytest.mark.parametrize("tie_break", [TopKTieBreak.SMALL, TopKTieBreak.LARGE])
def test_page_table_transform(tensors, rng, page_size, form, tie_break):
    x = tensors.make(rng.integers(0, 50, (4, 320)), "float16")  # many ties
    lengths, k = [320, 3, 0, 120], 50
    requests = [0, 1, 2, 3] if form == "plain" else [1, 1, 0, 2]
    table = rng.integers(0, 10000, (4, 320 // page_size + 30))
    options = {"tie_break": tie_break, "page_size": page_size}
    starts = table_starts = [0] * 4
    if form != "plain":
        options["row_to_batch"] = int32(tensors, requests)
    if form.endswith("row_starts"):
        starts = table_starts = [0, 10, 3, 20]
        options["row_starts"] = int32(tensors, starts)
    if form == "page_table_row_starts":
        table_starts = [5, 0, 7, 2]
        options["page_table_row_starts"] = int32(tensors, table_starts)
    out, raw = int32(tensors, np.full((4, k), 77)), int32(tensors, np.full((4, k), 77))
    result = topk.top_k_page_table_transform(
        x, int32(tensors, table), int32(tensors, lengths), k, out=out, out_raw_indices=raw,
        **options)
    assert result is out
    for row, given in enumerate(tensors.read(x)):
        columns = expected_columns(given[starts[row]:starts[row] + lengths[row]], k,
                                   tie_break == TopKTieBreak.LARGE)
        pages = table[requests[row]][table_starts[row] + columns // page_size]
        np.testing.assert_array_equal(tensors.read(raw)[row], padded(columns, k))
        np.testing.assert_array_equal(tensors.read(out)[row],
                                      padded(pages * page_size + columns % page_size, k))


def test_names_of_clusters(tensors, rng):
    x = tensors.make(rng.standard_normal((2, 100)), "float32")
    values, columns = flashinfer.top_k(x, 9)
    indices, none = topk.topk_clusters_exact(x, 9)
    assert none is None and indices.dtype == tensors.dtype("int32")
    assert (tensors.read(indices) == tensors.read(columns)).all()
    indices, again = topk.topk_clusters_exact(x, 9, True, tensors.dtype("int64"))
    assert indices.dtype == tensors.dtype("int64")
    assert (tensors.read(again) == tensors.read(values)).all()
    lengths, table = int32(tensors, [100, 5]), int32(tensors, rng.integers(0, 99, (2, 100)))
    assert (tensors.read(topk.topk_clusters_page_table_transform(x, lengths, table, 9)) ==
            tensors.read(flashinfer.top_k_page_table_transform(x, table, lengths, 9))).all()
    offsets = int32(tensors, [3, 4])
    assert (tensors.read(topk.topk_clusters_ragged_transform(x, lengths, offsets, 9)) ==
            tensors.read(flashinfer.top_k_ragged_transform(x, offsets, lengths, 9))).all()
    assert topk.can_implement_filtered_topk() is False
    assert topk.can_use_clusters_topk(None, True, 0, True) is False
    assert topk.get_fast_topk_clusters(64) == 1


def test_varlen(tensors, rng):
    x, lengths = tensors.make(rng.standard_normal((3, 100)), "float16"), [100, 4, 50]
    out = int32(tensors, np.full((3, 9), 77))
    indices, values = flashinfer.top_k_varlen(x, tensors.make(np.array(lengths)), 9,
                                              return_values=True, out_indices=out)
    assert indices is out and values.dtype == x.dtype
    for row, given in enumerate(tensors.read(x)):
        columns = expected_columns(given[:lengths[row]], 9)
        np.testing.assert_array_equal(tensors.read(indices)[row], padded(columns, 9))
        np.testing.assert_array_equal(tensors.read(values)[row, :len(columns)], given[columns])
    assert flashinfer.top_k_varlen(x, int32(tensors, lengths), 9)[1] is None
    with pytest.raises(NotImplementedError, match="next_n=2"):
        flashinfer.top_k_varlen(x, int32(tensors, lengths), 9, next_n=2)


@pytest.mark.parametrize("call, words", [
    (lambda x: topk.top_k(x, -1), "k: is -1, accepted: 0 or more"),
    (lambda x: topk.top_k(x, 2, tie_break=3), "tie_break: is 3"),
    (lambda x: topk.top_k(x[0], 2), "input"),
    (lambda x: topk.top_k(x.astype(np.int32), 2), "input: dtype is i32"),
    (lambda x: topk.top_k_ragged_transform(x, np.zeros(3, np.int32), np.zeros(2, np.int32), 2),
     "offsets"),
    (lambda x: topk.top_k_ragged_transform(x, np.zeros(2, np.int32), np.full(2, 99, np.int32), 2),
     "lengths"),
    (lambda x: topk.top_k_page_table_transform(
        x, np.zeros((2, 8), np.int32), np.full(2, 8, np.int32), 2, out=np.zeros((2, 3), np.int32)),
     r"out: shape is \[2, 3\], expected \[2, 2\]"),
])
def test_wrong_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call(np.zeros((2, 8), np.float32))
