# SPDX-License-Identifier: Apache-2.0
"""Plans of tables that are on a CUDA device, for cuda_test.py: run with a driver in the library path,
as cuda_calls.py. They are the same as plans of the same numbers in host memory."""
import sys

from cuda_device import DeviceArray, main, nans, rng, values
import numpy as np

import flashinfer
from flashinfer._binding import lib

SIZES = (4, 2, 64, 4)
ROWS, INDPTR, LAST = np.int32([0, 1, 6, 8]), np.int32([0, 2, 5, 6]), np.int32([1, 4, 2])
PAGES = np.int32([5, 0, 2, 1, 4, 3])


def strided(numbers):
    """A view on the device whose numbers have others between them."""
    apart = np.full(3 * len(numbers), 10**8, np.int32)
    apart[::3] = numbers
    table = DeviceArray(apart)
    table.shape, table.strides = (len(numbers),), (3,)
    return table


def workspace():
    return DeviceArray(np.zeros(8 << 20, np.uint8))


def forms(*tables):
    """The tables in host memory, on the device, strided, and one here and one there."""
    yield list(tables)
    yield [DeviceArray(t) for t in tables]
    yield [strided(t) for t in tables]
    yield [DeviceArray(t) if i % 2 else t for i, t in enumerate(tables)]


def check_same(results):
    first = next(results)
    assert all(np.isfinite(np.asarray(x, np.float32)).all() for x in first)
    for others in results:
        for a, b in zip(first, others):
            assert (a == b).all()


def out_and_lse(rows):
    return DeviceArray(nans(rows, 4, 64)), DeviceArray(nans(rows, 4, dtype=np.float32))


def decoded(wrapper, q, k, v):
    """What three planned requests give: results and logarithms, and results with sinks."""
    out, lse = out_and_lse(3)
    wrapper.run(q, (k, v), out=out, lse=lse)
    again = DeviceArray(nans(3, 4, 64))
    wrapper.run(q, (k, v), out=again, sinks=DeviceArray(np.zeros(4, np.float32)))
    return out.read(), lse.read(), again.read()


def test_decode():
    q, k, v = (DeviceArray(values(*s)) for s in ((3, 4, 64), (6, 4, 2, 64), (6, 4, 2, 64)))
    pages = DeviceArray(PAGES)

    def results():
        for indptr, last in forms(INDPTR, LAST):
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
            for _ in range(2):  # the second plan has the first one's memory
                wrapper.plan(indptr, pages, last, *SIZES, q_data_type="bfloat16")
            yield decoded(wrapper, q, k, v)

    check_same(results())


def test_pages_of_a_token():
    """Nothing of last_page_len is read there."""
    q, k, v = (DeviceArray(values(*s)) for s in ((3, 4, 64), (6, 1, 2, 64), (6, 1, 2, 64)))
    pages, sizes = DeviceArray(PAGES), (4, 2, 64, 1)

    def results():
        for indptr, last in ((INDPTR, np.int32([1, 1, 1])),
                             (DeviceArray(INDPTR), DeviceArray(np.int32([9, 9, 9])))):
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
            wrapper.plan(indptr, pages, last, *sizes, q_data_type="bfloat16")
            yield decoded(wrapper, q, k, v)

    check_same(results())


def test_prefill():
    q, k, v = (DeviceArray(values(*s)) for s in ((8, 4, 64), (6, 4, 2, 64), (6, 4, 2, 64)))
    pages = DeviceArray(PAGES)

    def results():
        for rows, indptr, last in forms(ROWS, INDPTR, LAST):
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace())
            out, lse = out_and_lse(8)
            wrapper.plan(rows, indptr, pages, last, *SIZES, q_data_type="bfloat16", causal=True)
            wrapper.run(q, (k, v), out=out, lse=lse)
            yield out.read(), lse.read()

    check_same(results())


def test_ragged():
    q, k, v = (DeviceArray(values(*s)) for s in ((8, 4, 64), (20, 2, 64), (20, 2, 64)))

    def results():
        for rows, keys in forms(ROWS, np.int32([0, 3, 8, 20])):
            wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace())
            out, lse = out_and_lse(8)
            wrapper.plan(rows, keys, *SIZES[:3], q_data_type="bfloat16")
            wrapper.run(q, k, v, out=out, lse=lse)
            yield out.read(), lse.read()

    check_same(results())


def test_ragged_plans_of_a_graph():
    """A plan on the device, then others of it; of fewer rows than the first, by the host's."""
    q, k, v = (DeviceArray(values(*s)) for s in ((12, 4, 64), (60, 2, 64), (60, 2, 64)))
    batches = [(ROWS, [0, 3, 8, 20]), ([0, 6, 7, 8], [0, 30, 31, 40]), ([0, 1, 1, 5], [0, 9, 9, 50])]
    batches = [(np.int32(rows), np.int32(keys)) for rows, keys in batches]
    made = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
        workspace(), use_cuda_graph=True, qo_indptr_buf=DeviceArray(np.zeros(4, np.int32)),
        kv_indptr_buf=DeviceArray(np.zeros(4, np.int32)))

    def fill(name, buffer, given):  # which tensors of frameworks can
        buffer.write(given)

    flashinfer.attention.batch_prefill_ragged.copy_into = fill
    for rows, keys in batches:
        eager = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace())
        results = []
        for wrapper in (made, eager):
            num_rows = int(rows[-1])
            out, lse = (DeviceArray(nans(num_rows, 4, *n, dtype=d))
                        for n, d in (((64,), nans(1).dtype), ((), np.float32)))
            wrapper.plan(rows, keys, *SIZES[:3], causal=True, q_data_type="bfloat16")
            wrapper.run(q[:num_rows], k, v, out=out, lse=lse)
            results.append([x.read().astype(np.float32) for x in (out, lse)])
        assert made._graph_plan is not None and made._graph_plan._key is not None
        for a, b in zip(*results):
            assert np.isfinite(b).any() and np.abs(np.nan_to_num(a - b)).max() < 3e-2
            assert (np.isfinite(a) == np.isfinite(b)).all()


def test_latent_attention():
    q_nope, q_pe, ckv, kpe = (DeviceArray(values(*s)) for s in
                              ((8, 4, 128), (8, 4, 64), (6, 4, 128), (6, 4, 64)))
    pages = DeviceArray(PAGES)

    def results():
        for rows, indptr, lens in forms(ROWS, INDPTR, np.int32([5, 12, 2])):
            wrapper = flashinfer.BatchMLAPagedAttentionWrapper(workspace())
            out = DeviceArray(nans(8, 4, 128))
            wrapper.plan(rows, indptr, pages, lens, 4, 128, 64, 4, True, 0.1, "bfloat16",
                         "bfloat16")
            wrapper.run(q_nope, q_pe, ckv, kpe, out=out)
            yield (out.read(),)

    check_same(results())


def test_cascade():
    q, k, v = (DeviceArray(values(*s)) for s in ((3, 4, 64), (6, 4, 2, 64), (6, 4, 2, 64)))
    shared, own = DeviceArray(PAGES[:2]), DeviceArray(PAGES[2:])
    tables = (np.int32([0, 3]), np.int32([0, 2]), np.int32([4]), np.int32([0, 1, 2, 3]),
              np.int32([0, 2, 3, 4]), LAST)

    def results():
        for a, b, c, d, e, f in forms(*tables):
            plan = lib.cascade_plan_make(2, 0)
            from flashinfer.attention.record import MASK_CAUSAL, PROBLEM, pack

            record = pack(PROBLEM, (2, 2, 2, 4, 2, 64, 64, 4, 0, MASK_CAUSAL, -1, 0, 0, 0.125, 0.0,
                                    1.0, 1e4))
            out = DeviceArray(nans(3, 4, 64))
            lib.cascade_plan(plan, record, workspace(), [a, b, shared, c, d, e, own, f])
            lib.cascade_run(plan, q, k, v, out, None)
            yield (out.read(),)

    check_same(results())


def test_wrong_numbers_are_named():
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
    pages = DeviceArray(PAGES)
    for indptr, last, words in ((INDPTR, np.int32([1, 9, 2]), "last_page_len[1]: is 9"),
                                (np.int32([0, 5, 2, 6]), LAST, "indptr"),
                                (INDPTR, LAST[:2], "last_page_len: "),
                                (INDPTR.astype(np.int64), LAST, "indptr: ")):
        try:
            wrapper.plan(DeviceArray(indptr), pages, DeviceArray(last), *SIZES,
                         q_data_type="bfloat16")
        except ValueError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no ValueError with {words}")


def test_packing_of_bits():
    truth = rng.integers(0, 2, 77).astype(np.uint8)
    for is_little in (False, True):
        packed = DeviceArray(np.zeros(10, np.uint8))
        lib.packbits(DeviceArray(truth), packed, is_little)
        order = "little" if is_little else "big"
        assert (packed.read() == np.packbits(truth, bitorder=order)).all()
        indptr, begins = np.int32([0, 5, 5, 77]), np.zeros(4, np.int32)
        packed = DeviceArray(np.zeros(10, np.uint8))
        assert lib.segment_packbits_bytes(indptr) == 10
        lib.segment_packbits(DeviceArray(truth), indptr, packed, begins, is_little)
        parts = [np.packbits(truth[a:b], bitorder=order) for a, b in ((0, 5), (5, 77))]
        assert (packed.read() == np.concatenate(parts)).all()
        assert (begins == [0, 1, 1, 10]).all()


if __name__ == "__main__":
    sys.exit(main(globals()))
