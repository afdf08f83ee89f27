# SPDX-License-Identifier: Apache-2.0
"""Arrays of JAX on the CPU give what NumPy ones do. Skipped where JAX is not installed, as in CI:
docs/python.md says which version it was run with."""
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")
jnp = jax.numpy

import flashinfer
from flashinfer import decode, mla, sampling

INDPTR, PAGES, LAST = np.int32([0, 2, 5]), np.int32([4, 1, 0, 3, 2]), np.int32([3, 4])


def same(call, *arrays):
    """call() of arrays of JAX and of NumPy."""
    ours, theirs = call(*[jnp.asarray(a) for a in arrays]), call(*arrays)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (ours, theirs)]):
        assert isinstance(a, np.ndarray)
        np.testing.assert_array_equal(a, b)


def normal(rng, *shape, dtype="float16"):
    return rng.standard_normal(shape).astype(jnp.dtype(dtype))


def workspace():
    return np.zeros(8 << 20, np.uint8)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_row_operators(rng, dtype):
    same(flashinfer.rmsnorm, normal(rng, 4, 64, dtype=dtype), normal(rng, 64, dtype=dtype))
    same(flashinfer.silu_and_mul, normal(rng, 3, 128, dtype=dtype))
    same(lambda q, k, i: flashinfer.apply_rope_pos_ids(q, k, i), normal(rng, 4, 4, 64, dtype=dtype),
         normal(rng, 4, 2, 64, dtype=dtype), np.int32([0, 5, 2, 9]))


def test_transposed(rng):
    x = normal(rng, 64, 4, dtype="float32")
    found = flashinfer.rmsnorm(jnp.asarray(x).T, jnp.ones(64))
    np.testing.assert_array_equal(found, flashinfer.rmsnorm(np.ascontiguousarray(x.T),
                                                            np.ones(64, np.float32)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_planned_attention(rng, dtype):
    def run_decode(indptr, pages, last, q, cache):
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
        wrapper.plan(indptr, pages, last, 4, 2, 64, 4, q_data_type=q.dtype)
        return wrapper.run(q, cache, return_lse=True)

    def run_prefill(rows, indptr, pages, last, q, cache):
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace())
        wrapper.plan(rows, indptr, pages, last, 4, 2, 64, 4, causal=True, q_data_type=q.dtype)
        return wrapper.run(q, cache, return_lse=True)

    cache = normal(rng, 5, 2, 4, 2, 64, dtype=dtype)
    same(run_decode, INDPTR, PAGES, LAST, normal(rng, 2, 4, 64, dtype=dtype), cache)
    same(run_prefill, np.int32([0, 3, 4]), INDPTR, PAGES, LAST, normal(rng, 4, 4, 64, dtype=dtype),
         cache)


def test_other_attention(rng):
    def masked(q, k, v, mask):
        return flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask)

    def latent(rows, indptr, pages, lens, q, q_pe, ckv, kpe):
        wrapper = mla.BatchMLAPagedAttentionWrapper(workspace())
        wrapper.plan(rows, indptr, pages, lens, 4, 64, 16, 4, True, 0.1, q.dtype, q.dtype)
        return wrapper.run(q, q_pe, ckv, kpe)

    def tables(q, cache, table, lens):
        return decode.trtllm_batch_decode_with_kv_cache(q, cache, workspace(), table, lens, 8, 0.1)

    same(masked, normal(rng, 5, 4, 64), normal(rng, 9, 2, 64), normal(rng, 9, 2, 64),
         rng.random((5, 9)) < 0.5)
    same(latent, np.int32([0, 1, 2]), np.int32([0, 2, 3]), np.int32([2, 0, 1]), np.int32([6, 3]),
         *[normal(rng, *s) for s in ((2, 4, 64), (2, 4, 16), (3, 4, 64), (3, 4, 16))])
    same(tables, normal(rng, 2, 4, 64), normal(rng, 5, 2, 2, 4, 64), np.int32([[0, 1], [2, 3]]),
         np.int32([5, 8]))


def test_samplers(rng):
    probs = np.asarray(jax.nn.softmax(normal(rng, 3, 100, dtype="float32")))
    same(lambda p: sampling.top_p_sampling_from_probs(p, 0.9, seed=3, offset=0), probs)
    same(lambda p: sampling.top_k_renorm_probs(p, 7), probs)
    same(lambda x: flashinfer.top_k(x, 5), normal(rng, 3, 100, dtype="float32"))


def test_narrow_types(rng):
    x = normal(rng, 8, 64, dtype="float32")
    same(flashinfer.mxfp8_quantize, x)
    same(flashinfer.fp4_quantize, x)
    y = normal(rng, 2, 4, 64, dtype="float8_e4m3fn")
    same(lambda a, b: flashinfer.bmm_fp8(a, b.swapaxes(1, 2), 0.5, 1.0, "bfloat16"), y, y)
    q, scales = flashinfer.fp4_quantize(x)
    same(lambda a, b: flashinfer.mm_fp4(a, a.T, b, b.T), q, scales)


def test_what_is_never_written_to(rng):
    x, out = jnp.asarray(normal(rng, 3, 64)), jnp.zeros((3, 64), jnp.float16)
    before = np.array(x)
    weight = jnp.ones(64, jnp.float16)
    with pytest.raises(ValueError, match="out: is an array of JAX"):
        flashinfer.rmsnorm(x, weight, out=out)
    with pytest.raises(ValueError, match="x: is an array of JAX"):
        flashinfer.fused_add_rmsnorm(x, np.array(x), weight)
    with pytest.raises(ValueError, match="workspace: is an array of JAX"):
        flashinfer.BatchDecodeWithPagedKVCacheWrapper(jnp.zeros(1024, jnp.uint8))
    np.testing.assert_array_equal(np.asarray(x), before)
    assert (np.asarray(out) == 0).all()
