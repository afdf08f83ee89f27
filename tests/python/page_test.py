# SPDX-License-Identifier: Apache-2.0
"""flashinfer.page and concat_ops against plain loops."""
import numpy as np
import pytest
from conftest import check_close

import flashinfer
from flashinfer.page import _positions_on_device

APPEND, LENGTHS = np.array([3, 0, 5, 1], np.int32), np.array([7, 2, 5, 9], np.int32)
INDPTR = np.concatenate([[0], np.cumsum(APPEND)]).astype(np.int32)


def expected_positions(num_rows):
    requests, positions = np.full(num_rows, -1, np.int32), np.full(num_rows, -1, np.int32)
    row = 0
    for b, (new, total) in enumerate(zip(APPEND, LENGTHS)):
        for i in range(new):
            requests[row], positions[row] = b, total - new + i
            row += 1
    return requests, positions


@pytest.mark.parametrize("gives_outputs", [False, True])
def test_positions(tensors, gives_outputs):
    outs = [tensors.full((11,), 77, "int32") for _ in range(2)] if gives_outputs else [None, None]
    found = flashinfer.get_batch_indices_positions(tensors.make(INDPTR), tensors.make(LENGTHS), 11,
                                                   *outs)
    for result, value, out in zip(found, expected_positions(11), outs):
        np.testing.assert_array_equal(tensors.read(result), value)
        assert out is None or result is out


def test_positions_as_a_device_computes_them():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    outs = torch.full((2, 11), 77, dtype=torch.int32)
    _positions_on_device(torch.from_numpy(INDPTR), torch.from_numpy(LENGTHS), outs[0], outs[1])
    np.testing.assert_array_equal(outs.numpy(), expected_positions(11))


def test_seq_lens(tensors):
    indptr = tensors.make(np.array([0, 2, 2, 5], np.int32))
    last = tensors.make(np.array([3, 0, 16], np.int32))
    found = flashinfer.get_seq_lens(indptr, last, 16)
    np.testing.assert_array_equal(tensors.read(found), [19, 0, 48])


def page_tables(rng, page_size):
    """Pages of each request in random order, with two pages to spare."""
    num_pages = -(-LENGTHS // page_size)
    indptr = np.concatenate([[0], np.cumsum(num_pages)]).astype(np.int32)
    pages = rng.permutation(indptr[-1] + 2)[:indptr[-1]].astype(np.int32)
    return indptr, pages, ((LENGTHS - 1) % page_size + 1).astype(np.int32)


def expect_append(cache, rows, tables, page_size):
    """Writes rows to an NHD cache of float64."""
    indptr, pages, _ = tables
    for row, b, position in zip(rows, *expected_positions(len(rows))):
        cache[pages[indptr[b] + position // page_size], position % page_size] = row
    return cache


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("form", ["pair", "one tensor", "list"])
@pytest.mark.parametrize("dtype, cache_dtype", [("float16", "float16"), ("bfloat16", "bfloat16"),
                                                ("bfloat16", "float8_e4m3fn")])
def test_append(tensors, rng, layout, form, dtype, cache_dtype):
    page_size, tables = 4, page_tables(rng, 4)
    num_pages = tables[0][-1] + 2
    both = tensors.make(rng.standard_normal((9, 2, 3, 64)), dtype)
    rows = both[:, 0], both[:, 1]  # neither is dense
    middle = (page_size, 3) if layout == "NHD" else (3, page_size)
    cache = tensors.full((num_pages, 2) + middle + (64,), 7.0, cache_dtype)
    given = cache if form == "one tensor" else (cache[:, 0], cache[:, 1])
    flashinfer.append_paged_kv_cache(
        *rows, *(tensors.make(x) for x in expected_positions(9)),
        list(given) if form == "list" else given, tensors.make(tables[1]),
        tensors.make(tables[0]), tensors.make(tables[2]), layout)
    for i in range(2):
        found = tensors.read(cache[:, i])
        found = found if layout == "NHD" else found.swapaxes(1, 2)
        expected = expect_append(np.full((num_pages, page_size, 3, 64), 7.0),
                                 tensors.read(rows[i]), tables, page_size)
        if dtype == cache_dtype:
            np.testing.assert_array_equal(found, expected)
        else:
            check_close(found, expected, cache_dtype, scale=2.0**-5)


def test_append_to_pages_of_one_token(tensors, rng):
    tables = page_tables(rng, 1)
    num_pages = tables[0][-1] + 2
    k, v = (tensors.make(rng.standard_normal((9, 3, 32)), "float16") for _ in range(2))
    cache = tensors.full((num_pages, 2, 3, 32), 0.0, "float16")
    flashinfer.append_paged_kv_cache(k, v, *(tensors.make(x) for x in expected_positions(9)),
                                     cache, *(tensors.make(tables[i]) for i in (1, 0, 2)))
    expected = expect_append(np.zeros((num_pages, 1, 3, 32)), tensors.read(v), tables, 1)
    np.testing.assert_array_equal(tensors.read(cache[:, 1]), expected[:, 0])


def test_append_latent(tensors, rng):
    page_size, tables = 4, page_tables(rng, 4)
    num_pages = tables[0][-1] + 2
    rows = [tensors.make(rng.standard_normal((9, n)), "bfloat16") for n in (512, 64)]
    caches = [tensors.full((num_pages, page_size, n), 0.0, "bfloat16") for n in (512, 64)]
    flashinfer.append_paged_mla_kv_cache(*rows, *(tensors.make(x) for x in expected_positions(9)),
                                         *caches, *(tensors.make(tables[i]) for i in (1, 0, 2)))
    for row, cache in zip(rows, caches):
        expected = expect_append(np.zeros((num_pages, page_size, row.shape[1])),
                                 tensors.read(row), tables, page_size)
        np.testing.assert_array_equal(tensors.read(cache), expected)


def test_wrong_positions_are_refused(rng):
    tables = page_tables(rng, 4)
    k = np.zeros((9, 1, 8), np.float32)
    cache = np.zeros((tables[0][-1] + 2, 2, 4, 1, 8), np.float32)
    requests, positions = expected_positions(9)
    positions[4] = 100
    with pytest.raises(ValueError, match=r"positions\[4\]: is 100"):
        flashinfer.append_paged_kv_cache(k, k, requests, positions, cache, tables[1], tables[0],
                                         tables[2])
    with pytest.raises(KeyError, match="kv_layout"):
        flashinfer.append_paged_kv_cache(k, k, requests, positions, cache, tables[1], tables[0],
                                         tables[2], "DNH")
    with pytest.raises(ValueError, match="expected 2 in the second"):
        flashinfer.append_paged_kv_cache(k, k, requests, positions, cache[:, :1], tables[1],
                                         tables[0], tables[2])


def test_concat_mla_k(tensors, rng):
    nope = tensors.make(rng.standard_normal((5, 4, 128)), "bfloat16")
    rope = tensors.make(rng.standard_normal((5, 1, 64)), "bfloat16")
    k = tensors.full((5, 4, 192), np.nan, "bfloat16")
    assert flashinfer.concat_ops.concat_mla_k(k, nope, rope) is None
    expected = np.concatenate([tensors.read(nope), np.repeat(tensors.read(rope), 4, axis=1)], -1)
    np.testing.assert_array_equal(tensors.read(k), expected)
    with pytest.raises(ValueError, match="last dimension is 192"):
        flashinfer.concat_ops.concat_mla_k(k, nope, rope[..., :32])


def nvfp4_caches(tensors, num_pages, layout):
    middle = (4, 3) if layout == "NHD" else (3, 4)
    packed = tuple(tensors.full((num_pages,) + middle + (32,), 0, "uint8") for _ in range(2))
    scales = tuple(tensors.full((num_pages,) + middle + (4,), 0.0, "float8_e4m3fn")
                   for _ in range(2))
    return packed, scales


def check_nvfp4_cache(tensors, packed, scales, factors, layout, expected, written):
    """Dequantised slots are near `expected`, [num_slots, 3, 64] each; others are still zero."""
    num_pages = packed[0].shape[0]
    outputs = [tensors.full((1, num_pages * 4, 3, 64), 0.0, "bfloat16") for _ in range(2)]
    flashinfer.nvfp4_kv_dequantize_paged(
        packed, scales, tensors.make(np.arange(num_pages)[None]),
        tensors.make(np.array([num_pages * 4], np.int32)),
        *(tensors.make(np.full(1, factor), "float32") for factor in factors), *outputs, layout)
    for output, rows, factor in zip(outputs, expected, factors):
        found = tensors.read(output)[0]
        largest = np.abs(rows.reshape(-1, 4, 16)).max(axis=-1, keepdims=True)
        error = np.abs(found - rows).reshape(-1, 4, 16)
        assert (error <= largest / 5 + factor * 2.0**-8).all()  # half of the widest step, 2 of 6
        assert not found[~written].any()


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_append_nvfp4(tensors, rng, layout):
    tables = page_tables(rng, 4)
    num_pages = tables[0][-1] + 2
    both = tensors.make(rng.standard_normal((9, 2, 3, 64)), "bfloat16")
    packed, scales = nvfp4_caches(tensors, num_pages, layout)
    factors = 0.01, 0.02
    flashinfer.nvfp4_quantize_append_paged_kv_cache(
        both[:, 0], both[:, 1], *(tensors.make(x) for x in expected_positions(9)), packed, scales,
        *(tensors.make(tables[i]) for i in (1, 0, 2)), *factors, layout)
    expected = [expect_append(np.zeros((num_pages, 4, 3, 64)), tensors.read(both)[:, i], tables, 4)
                .reshape(-1, 3, 64) for i in range(2)]
    written = np.abs(expected[0]).any(axis=(1, 2))
    assert written.sum() == 9
    check_nvfp4_cache(tensors, packed, scales, factors, layout, expected, written)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_append_nvfp4_by_slots(tensors, rng, layout, dtype):
    k, v = (tensors.make(rng.standard_normal((9, 3, 64)), "float16") for _ in range(2))
    packed, scales = nvfp4_caches(tensors, 5, layout)
    slots = rng.permutation(20)[:7]
    slots[[2, 5]] = -1, 20
    factors = tensors.make(np.full(1, 0.5), "float32"), 1.0
    flashinfer.nvfp4_quantize_append_paged_kv_cache_with_slot_mapping(
        k, v, tensors.make(slots.astype(dtype)), packed, scales, *factors, layout)
    expected, inside = [np.zeros((20, 3, 64)) for _ in range(2)], (slots >= 0) & (slots < 20)
    for rows, values in zip(expected, (k, v)):
        rows[slots[inside]] = tensors.read(values)[:7][inside]
    written = np.isin(np.arange(20), slots[inside])
    check_nvfp4_cache(tensors, packed, scales, (0.5, 1.0), layout, expected, written)
    for bad in (0.0, -1.0, np.nan, tensors.make(np.full(1, np.inf), "float32")):
        with pytest.raises(ValueError, match="positive finite global decode scale"):
            flashinfer.nvfp4_quantize_append_paged_kv_cache_with_slot_mapping(
                k, v, tensors.make(slots.astype(dtype)), packed, scales, 1.0, bad, layout)
