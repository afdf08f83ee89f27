# SPDX-License-Identifier: Apache-2.0
"""flashinfer.rope against float64 NumPy."""
import inspect

import numpy as np
import pytest
from conftest import check_close

import flashinfer


def frequencies(rotary_dim, theta, scale=1.0, llama31=None):
    freq = theta ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
    if llama31 is None:
        return freq / scale
    low, high, context = llama31
    turns = freq * context / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - smooth) * freq / scale + smooth * freq


def rotate(x, positions, freq, interleave):
    """x [num_tokens, num_heads, head_dim] turned by positions · freq."""
    half = len(freq)
    angle = positions[:, None, None] * freq
    cos, sin = np.cos(angle), np.sin(angle)
    out = x.copy()
    first, second = ((slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleave
                     else (slice(0, half), slice(half, 2 * half)))
    a, b = x[..., first], x[..., second]
    out[..., first] = a * cos - b * sin
    out[..., second] = b * cos + a * sin
    return out


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("interleave", [False, True])
@pytest.mark.parametrize("llama31", [False, True])
@pytest.mark.parametrize("rotary_dim", [None, 32])
def test_four_forms(tensors, rng, dtype, interleave, llama31, rotary_dim):
    q = tensors.make(rng.standard_normal((10, 4, 64)), dtype)
    k = tensors.make(rng.standard_normal((10, 2, 64)), dtype)
    indptr = tensors.make(np.array([0, 3, 3, 10], np.int32))
    offsets = tensors.make(np.array([5, 100, 8000], np.int32))
    positions = np.concatenate([5 + np.arange(3), 8000 + np.arange(7)])
    options = dict(rotary_dim=rotary_dim, interleave=interleave, rope_scale=4.0, rope_theta=5e5)
    prefix = "apply_llama31_rope" if llama31 else "apply_rope"
    extra = (1, 4, 8192) if llama31 else None
    freq = frequencies(rotary_dim or 64, 5e5, 4.0, extra)
    expected = [rotate(tensors.read(x), positions, freq, interleave) for x in (q, k)]
    ids = tensors.make(positions.astype(np.int64))
    for name, where in ((prefix, (indptr, offsets)), (prefix + "_pos_ids", (ids,))):
        results = getattr(flashinfer, name)(q, k, *where, **options)
        copies = tensors.make(tensors.read(q), dtype), tensors.make(tensors.read(k), dtype)
        assert getattr(flashinfer, name + "_inplace")(*copies, *where, **options) is None
        for result, copy, value in zip(results, copies, expected):
            check_close(tensors.read(result), value, dtype)
            np.testing.assert_array_equal(tensors.read(copy), tensors.read(result))


def test_defaults_are_those_of_the_models():
    for name, scale, theta in (("apply_rope", 1, 1e4), ("apply_llama31_rope", 8, 5e5)):
        for suffix in ("", "_inplace", "_pos_ids", "_pos_ids_inplace"):
            parameters = inspect.signature(getattr(flashinfer, name + suffix)).parameters
            assert parameters["rope_scale"].default == scale
            assert parameters["rope_theta"].default == theta


@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize("flat", [True, False])
def test_cos_sin_cache(tensors, rng, is_neox, flat):
    freq = frequencies(32, 1e4)
    angle = np.arange(50)[:, None] * freq
    table = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    positions = rng.integers(0, 50, 9)
    shape = (9, -1) if flat else (9, -1, 64)
    values = rng.standard_normal((9, 4, 64)), rng.standard_normal((9, 1, 64))
    q, k = (tensors.make(x.reshape(shape), "bfloat16") for x in values)
    cache, ids = tensors.make(table, "float32"), tensors.make(positions)
    results = flashinfer.apply_rope_with_cos_sin_cache(ids, q, k, 64, cache, is_neox)
    expected = [rotate(tensors.read(x).reshape(9, -1, 64), positions, freq, not is_neox)
                for x in (q, k)]
    for result, value in zip(results, expected):
        check_close(tensors.read(result).reshape(value.shape), value, "bfloat16")
    flashinfer.apply_rope_with_cos_sin_cache_inplace(ids, q, k, 64, cache, is_neox)
    np.testing.assert_array_equal(tensors.read(q), tensors.read(results[0]))
    np.testing.assert_array_equal(tensors.read(k), tensors.read(results[1]))
    with pytest.raises(ValueError, match="float32"):
        flashinfer.apply_rope_with_cos_sin_cache(ids, q, k, 64, tensors.make(table, "float16"))
    if flat:
        with pytest.raises(ValueError, match="head_size=60"):
            flashinfer.apply_rope_with_cos_sin_cache(ids, q, k, 60, cache)


def quantise_inputs(tensors, rng, num_kv_heads, nope_dim):
    k_shape = (11,) if num_kv_heads is None else (11, num_kv_heads)
    parts = [tensors.make(rng.standard_normal(shape), "bfloat16")
             for shape in ((11, 4, 32), k_shape + (32,), (11, 4, nope_dim), k_shape + (nope_dim,))]
    angle = np.arange(64)[:, None] * frequencies(32, 1e4)
    cache = tensors.make(np.concatenate([np.cos(angle), np.sin(angle)], axis=1), "float32")
    return parts, cache


def quantised(tensors, parts, positions, scales):
    """What rope_quantize_fp8 writes, in float64, without rounding to fp8."""
    freq = frequencies(32, 1e4)
    q_rope, k_rope, q_nope, k_nope = (tensors.read(x) for x in parts)
    k_shape = k_rope.shape
    return (rotate(q_rope, positions, freq, False) * scales[0],
            rotate(k_rope.reshape(11, -1, 32), positions, freq, False).reshape(k_shape) * scales[1],
            q_nope * scales[0], k_nope * scales[1])


@pytest.mark.parametrize("num_kv_heads", [None, 2])
@pytest.mark.parametrize("fp8", ["float8_e4m3fn", "float8_e5m2"])
def test_rope_quantize(tensors, rng, num_kv_heads, fp8):
    parts, cache = quantise_inputs(tensors, rng, num_kv_heads, 48)
    positions = rng.permutation(64)[:11]
    results = flashinfer.rope.rope_quantize_fp8(
        *parts, cache, tensors.make(positions), quantize_dtype=tensors.dtype(fp8),
        quant_scale_q=2.0, quant_scale_kv=0.5)
    for result, value in zip(results, quantised(tensors, parts, positions, (2.0, 0.5))):
        assert result.dtype == tensors.dtype(fp8)
        check_close(tensors.read(result), value, fp8, scale=2.0**-5)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("nope_dim", [48, 0])
def test_rope_quantize_append(tensors, rng, layout, nope_dim):
    parts, cache = quantise_inputs(tensors, rng, 2, nope_dim)
    if nope_dim == 0:
        parts[2] = parts[3] = None
    v = tensors.make(rng.standard_normal((11, 2, 32 + nope_dim)), "bfloat16")
    page_size, positions = 4, np.arange(11)
    shape = (5, page_size, 2, 32 + nope_dim) if layout == "NHD" else (5, 2, page_size,
                                                                      32 + nope_dim)
    caches = tuple(tensors.full(shape, 0.0, "float8_e4m3fn") for _ in range(2))
    pages = np.array([3, 0, 4], np.int32)
    q_rope, q_nope = flashinfer.rope.rope_quantize_fp8_append_paged_kv_cache(
        *parts, v, cache, tensors.make(positions), caches, tensors.make(pages),
        tensors.make(np.array([0, 3], np.int32)), tensors.make(np.zeros(11, np.int32)),
        tensors.make(positions.astype(np.int32)), quant_scale_kv=0.5, page_size=page_size,
        kv_layout=layout)
    if nope_dim == 0:
        assert tuple(q_nope.shape) == (11, 4, 0)
        parts[2], parts[3] = (tensors.full((11, h, 0), 0.0, "bfloat16") for h in (4, 2))
    expected = quantised(tensors, parts, positions, (1.0, 0.5))
    check_close(tensors.read(q_rope), expected[0], "float8_e4m3fn", scale=2.0**-5)
    keys = np.concatenate([expected[1], expected[3]], axis=-1)
    for stored, rows in zip(caches, (keys, tensors.read(v) * 0.5)):
        stored = tensors.read(stored)
        if layout == "HND":
            stored = stored.swapaxes(1, 2)
        check_close(stored[pages].reshape(12, 2, -1)[:11], rows, "float8_e4m3fn", scale=2.0**-5)
        assert not stored[[1, 2]].any()
