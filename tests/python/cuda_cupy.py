# SPDX-License-Identifier: Apache-2.0
"""Arrays as CuPy has them, for cuda_test.py: run with a driver in the library path, as cuda_calls.py.
CuPy needs a GPU; what the package uses of it is here, in its names."""
import sys
import types

from cuda_device import DeviceArray, main
import ml_dtypes
import numpy as np

import flashinfer


class ndarray(DeviceArray):  # noqa: N801  (CuPy's name)
    """What the package uses of CuPy's arrays."""

    def get(self):
        return self.read()

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.pointer, False), "shape": self.shape, "version": 3,
                "typestr": self.dtype.str}

    @property
    def ndim(self):
        return len(self.shape)

    def __setitem__(self, key, value):
        now = self.read()
        now[key] = value.get() if isinstance(value, ndarray) else value
        self.write(now)


ndarray.__module__ = "cupy"
cupy = types.ModuleType("cupy")
cupy.ndarray = ndarray
for name in "float32 float16 uint8 int32 int64 uint64".split():
    setattr(cupy, name, getattr(np, name))
cupy.ascontiguousarray = lambda x: x
cupy.asarray = lambda x: x if isinstance(x, ndarray) else ndarray(x)
cupy.empty = lambda shape, dtype: ndarray(np.zeros(shape, dtype))
cupy.empty_like = lambda x: ndarray(np.zeros(x.shape, x.dtype))
sys.modules["cupy"] = cupy

rng = np.random.default_rng()


def values(*shape, dtype=np.float16):
    return rng.standard_normal(shape).astype(dtype)


def near(found, expected, limit=2.0**-8):
    assert type(found) is ndarray
    found, expected = (np.asarray(x, np.float64) for x in (found.get(), expected))
    assert np.abs(found - expected).max() <= limit * max(1, np.abs(expected).max())


def test_rows():
    x, weight = values(5, 256), values(256)
    near(flashinfer.rmsnorm(ndarray(x), ndarray(weight)), flashinfer.rmsnorm(x, weight))
    near(flashinfer.silu_and_mul(ndarray(x)), flashinfer.silu_and_mul(x))
    x = values(5, 256, dtype=ml_dtypes.bfloat16)
    near(flashinfer.silu_and_mul(ndarray(x)), flashinfer.silu_and_mul(x), 2.0**-6)
    logits = values(3, 100, dtype=np.float32)
    probs = flashinfer.sampling.softmax(ndarray(logits))
    near(probs, flashinfer.sampling.softmax(logits))
    seed = ndarray(np.array([7], np.int64))
    tokens = flashinfer.sampling.sampling_from_probs(probs, seed=seed, offset=seed)
    assert tokens.get().shape == (3,) and tokens.dtype == np.int32
    found, places = flashinfer.top_k(ndarray(logits), 4, sorted=True)
    assert (places.get() == np.argsort(-logits, kind="stable")[:, :4]).all()
    near(found, -np.sort(-logits)[:, :4])


def test_packed_bits():
    truth = rng.integers(0, 2, 21).astype(np.uint8)
    assert (flashinfer.packbits(ndarray(truth), "little").get()
            == np.packbits(truth, bitorder="little")).all()
    packed, indptr = flashinfer.segment_packbits(ndarray(truth), ndarray(np.int32([0, 3, 21])))
    expected = np.concatenate([np.packbits(truth[:3]), np.packbits(truth[3:])])
    assert (packed.get() == expected).all() and (indptr.get() == [0, 1, 4]).all()


INDPTR, PAGES, LAST = np.int32([0, 2, 5, 6]), np.int32([5, 0, 2, 1, 4, 3]), np.int32([1, 4, 2])
ROWS = np.int32([0, 1, 6, 8])


def on_both(call):
    """`call` of a function that makes arrays: CuPy's, and NumPy's."""
    for made, found in zip(call(lambda x: x), call(ndarray)):
        near(found, made)


def test_attention():
    q, k, v = values(3, 4, 64), values(6, 4, 2, 64), values(6, 4, 2, 64)
    queries = values(8, 4, 64)
    mask = rng.integers(0, 2, 5 + 60 + 4).astype(bool)

    def decode(make):
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(make(np.zeros(1 << 20, np.uint8)))
        wrapper.plan(make(INDPTR), make(PAGES), make(LAST), 4, 2, 64, 4, q_data_type="float16",
                     seq_lens=make(np.int32([5, 12, 2])))
        return wrapper.run(make(q), (make(k), make(v)), return_lse=True)

    def graph(make):
        buffers = [make(np.zeros(n, np.int32)) for n in (4, 8, 3)]
        wrapper = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(
            make(np.zeros(1 << 20, np.uint8)), *buffers)
        for last in (np.int32([4, 1, 1]), LAST):
            wrapper.plan(make(INDPTR), make(PAGES), make(last), 4, 2, 64, 4, q_data_type="float16")
        return (wrapper.run(make(q), (make(k), make(v))),)

    def prefill(make):
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(make(np.zeros(1 << 20, np.uint8)))
        wrapper.plan(make(ROWS), make(INDPTR), make(PAGES), make(LAST), 4, 2, 64, 4,
                     custom_mask=make(mask), q_data_type="float16")
        return wrapper.run(make(queries), (make(k), make(v)), return_lse=True)

    def by_tables(make):
        table = np.int32([[5, 0, 99], [2, 1, 4], [3, 99, 99]])
        return (flashinfer.decode.trtllm_batch_decode_with_kv_cache(
            make(q), (make(k), make(v)), make(np.zeros(1 << 20, np.uint8)), make(table),
            make(np.int32([5, 12, 2])), 12, 0.125, kv_layout="NHD"),)

    for call in (decode, graph, by_tables):
        on_both(call)
    made, found = prefill(lambda x: x), prefill(ndarray)
    near(found[0], made[0])


def test_latent_attention():
    q_nope, q_pe, ckv, kpe = values(3, 4, 128), values(3, 4, 64), values(6, 4, 128), values(6, 4, 64)

    def run(make):
        wrapper = flashinfer.BatchMLAPagedAttentionWrapper(make(np.zeros(1 << 20, np.uint8)))
        wrapper.plan(make(np.int32([0, 1, 2, 3])), make(INDPTR), make(PAGES),
                     make(np.int32([5, 12, 2])), 4, 128, 64, 4, False, 0.1, "float16", "float16")
        return (wrapper.run(make(q_nope), make(q_pe), make(ckv), make(kpe)),)

    on_both(run)


if __name__ == "__main__":
    sys.exit(main(globals()))
