# SPDX-License-Identifier: Apache-2.0
"""flashinfer.quantization against float64 NumPy and ml_dtypes."""
import ml_dtypes
import numpy as np
import pytest
from conftest import EPSILON

import flashinfer
from flashinfer import SfLayout
from flashinfer.quantization.nvfp4_quantization_utils import (
    NVFP44Over6Config,
    NVFP44Over6ErrMode,
    nvfp4_e4m3_max,
)


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
@pytest.mark.parametrize("size", [1, 8, 77])
def test_packbits(tensors, rng, bitorder, dtype, size):
    values = rng.integers(0, 2, size).astype(dtype) * (1 if dtype == "bool" else 3)
    packed = flashinfer.packbits(tensors.make(values.astype(dtype)), bitorder)
    np.testing.assert_array_equal(tensors.read(packed), np.packbits(values != 0, bitorder=bitorder))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_segment_packbits(tensors, rng, index_dtype):
    lengths = np.array([5, 0, 16, 9])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index_dtype)
    values = rng.integers(0, 2, indptr[-1]).astype(bool)
    packed, packed_indptr = flashinfer.segment_packbits(tensors.make(values),
                                                        tensors.make(indptr), "little")
    expected = [np.packbits(values[a:b], bitorder="little") for a, b in zip(indptr, indptr[1:])]
    np.testing.assert_array_equal(tensors.read(packed), np.concatenate(expected))
    np.testing.assert_array_equal(tensors.read(packed_indptr), [0, 1, 1, 3, 5])


def test_bit_order_is_checked():
    with pytest.raises(ValueError, match="bitorder is 'middle'"):
        flashinfer.packbits(np.zeros(3, bool), "middle")


def linear_scales(scales, layout, rows, blocks):
    """Bytes of scales as [rows, blocks], whichever layout they have: the formulas of SfLayout."""
    flat = np.asarray(scales).reshape(-1)
    m, k = np.meshgrid(np.arange(rows), np.arange(blocks), indexing="ij")
    padded = -(-blocks // 4) * 4
    if layout == SfLayout.layout_linear:
        where = m * blocks + k
    elif layout == SfLayout.layout_8x4:
        where = (m // 8) * padded * 8 + (k // 4) * 32 + (m % 8) * 4 + k % 4
    else:
        where = ((m // 128) * padded * 128 + (k // 4) * 512 + (m % 32) * 16
                 + (m % 128) // 32 * 4 + k % 4)
    return flat[where]


def unpacked(q):
    """Pairs of e2m1 as float64."""
    codes = np.stack([q & 15, q >> 4], axis=-1).reshape(q.shape[:-1] + (-1,)).astype(np.uint8)
    return codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", list(SfLayout))
@pytest.mark.parametrize("shape, alignment", [((3, 64), 32), ((130, 96), 128), ((2, 5, 160), 32)])
def test_mxfp8(tensors, rng, dtype, layout, shape, alignment):
    x = tensors.make(rng.standard_normal(shape) * 10, dtype)
    q, scales = flashinfer.mxfp8_quantize(x, alignment=alignment, sf_swizzle_layout=layout)
    padded = -(-shape[-1] // alignment) * alignment
    rows = int(np.prod(shape[:-1]))
    assert tuple(q.shape) == shape[:-1] + (padded,)
    assert q.dtype == tensors.dtype("float8_e4m3fn") and scales.dtype == tensors.dtype("uint8")
    values = np.zeros((rows, padded))
    values[:, :shape[-1]] = tensors.read(x).reshape(rows, -1)
    amax = np.abs(values.reshape(rows, -1, 32)).max(axis=-1)
    exponents = np.where(amax > 0, np.ceil(np.log2(np.where(amax > 0, amax, 1) / 448)) + 127, 0)
    found = linear_scales(tensors.read(scales), layout, rows, padded // 32)
    np.testing.assert_array_equal(found, exponents)
    factor = np.repeat(2.0 ** (exponents - 127), 32, axis=-1)
    expected = (values / factor).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    np.testing.assert_array_equal(tensors.read(q).reshape(rows, padded), expected)
    if padded == shape[-1]:
        back = flashinfer.mxfp8_dequantize_host(q, scales, sf_swizzle_layout=layout)
        np.testing.assert_array_equal(tensors.read(back).reshape(rows, padded), expected * factor)


@pytest.mark.parametrize("is_mxfp4", [False, True])
@pytest.mark.parametrize("layout", list(SfLayout))
@pytest.mark.parametrize("gives_scale", [False, True])
def test_fp4(tensors, rng, is_mxfp4, layout, gives_scale):
    rows, size, block = 37, 96, 32 if is_mxfp4 else 16
    x = tensors.make(rng.standard_normal((rows, size)), "bfloat16")
    values = tensors.read(x)
    factor = 4.0 if gives_scale else 1.0
    scale = tensors.make(np.full(1, factor), "float32") if gives_scale else None
    swizzle = dict(is_sf_swizzled_layout=layout != SfLayout.layout_linear,
                   is_sf_8x4_layout=layout == SfLayout.layout_8x4)
    q, scales = flashinfer.fp4_quantize(x, scale, block, is_mxfp4, **swizzle)
    assert tuple(q.shape) == (rows, size // 2)
    assert tuple(scales.shape)[1] == (size // block if layout == SfLayout.layout_linear
                                      else -(-size // block // 4) * 4)
    amax = np.abs(values.reshape(rows, -1, block)).max(axis=-1) * factor / 6
    codes = linear_scales(tensors.read(scales), layout, rows, size // block).astype(np.uint8)
    if is_mxfp4:
        np.testing.assert_array_equal(codes, np.ceil(np.log2(amax)) + 127)
        per_block = 2.0 ** (codes.astype(int) - 127)
    else:
        per_block = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
        assert (np.abs(per_block - amax) <= amax * EPSILON["float8_e4m3fn"] / 2 + 2.0**-10).all()
    per_value = np.repeat(per_block, block, axis=-1)
    # A value is rounded to the nearest of 0, 0.5, …, 6: at most half of the widest step, 2, away.
    found = unpacked(tensors.read(q))
    scaled = np.clip(values * factor / per_value, -6, 6)
    step = np.where(np.abs(scaled) < 2, 0.5, np.where(np.abs(scaled) < 4, 1, 2))
    assert (np.abs(found - scaled) <= step / 2 * 1.01).all()
    inverse = tensors.make(np.full(1, 1 / factor), "float32")
    back = flashinfer.e2m1_and_ufp8sf_scale_to_float(q, scales, inverse, block,
                                                     0 if is_mxfp4 else 1, **swizzle)
    np.testing.assert_array_equal(np.asarray(back), found * per_value / factor)  # in host memory


def test_fp4_of_a_column_major_matrix(tensors, rng):
    x = tensors.make(rng.standard_normal((40, 64)), "float32")
    q, scales = flashinfer.fp4_quantize(x, None)
    transposed = flashinfer.fp4_quantize(x.T, None)
    np.testing.assert_array_equal(tensors.read(transposed[0]).T, tensors.read(q))
    np.testing.assert_array_equal(tensors.read(transposed[1]).T, tensors.read(scales))


def test_other_forms_of_fp4(tensors, rng):
    x = tensors.make(rng.standard_normal((3, 40, 64)), "float32")
    scale = tensors.make(np.full(1, 3.0), "float32")
    q, scales = flashinfer.nvfp4_batched_quantize(x, scale)
    for i in range(3):
        one = flashinfer.nvfp4_quantize(x[i], scale)
        np.testing.assert_array_equal(tensors.read(q[i]), tensors.read(one[0]))
        np.testing.assert_array_equal(tensors.read(scales[i]), tensors.read(one[1]).reshape(-1))
    linear = flashinfer.nvfp4_quantize(x[0], scale, SfLayout.layout_linear)[1]
    swizzled = flashinfer.block_scale_interleave(linear)
    np.testing.assert_array_equal(
        linear_scales(tensors.read(swizzled), SfLayout.layout_128x4, 40, 4), tensors.read(linear))
    q, scales = flashinfer.mxfp4_quantize(x[0], sfLayout=SfLayout.layout_linear)
    np.testing.assert_array_equal(
        tensors.read(flashinfer.mxfp4_dequantize_host(q, scales)),
        np.asarray(flashinfer.mxfp4_dequantize(q, scales, SfLayout.layout_linear)))


def test_nvfp4_of_a_kv_cache(tensors, rng):
    x = tensors.make(rng.standard_normal((9, 64)), "bfloat16")
    scale = tensors.make(np.full(1, 0.25), "float32")
    q, scales = flashinfer.nvfp4_kv_quantize(x, scale)
    codes = np.ascontiguousarray(tensors.read(scales)).view(ml_dtypes.float8_e4m3fn)
    expected = unpacked(tensors.read(q)) * np.repeat(codes.astype(np.float64), 16, axis=-1) * 0.25
    back = flashinfer.nvfp4_kv_dequantize(q, scales, scale)
    np.testing.assert_array_equal(tensors.read(back), expected)
    assert np.abs(expected - tensors.read(x)).max() < 0.8


@pytest.mark.parametrize("dtype, largest", [("float8_e4m3fn", 448), ("float8_e5m2", 57344),
                                            ("int8", 127)])
@pytest.mark.parametrize("is_ue8m0", [False, True])
@pytest.mark.parametrize("is_column_major", [False, True])
def test_per_token_group(tensors, rng, dtype, largest, is_ue8m0, is_column_major):
    x = tensors.make(rng.standard_normal((6, 128)), "float32")
    q, scales = flashinfer.quantization.per_token_group_quant_8bit(
        x, 32, dst_dtype=dtype, column_major_scales=is_column_major, scale_ue8m0=is_ue8m0,
        scale_tma_aligned=is_column_major)
    values = tensors.read(x).reshape(6, 4, 32)
    expected = np.abs(values).max(axis=-1) / largest
    if is_ue8m0:
        expected = 2.0 ** np.ceil(np.log2(expected))
    found = tensors.read(scales)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    error = np.abs(tensors.read(q).reshape(6, 4, 32) * found[..., None] - values)
    step = found[..., None] if dtype == "int8" else np.abs(values) * EPSILON[dtype]
    assert (error <= 0.51 * np.maximum(step, found[..., None] * 2.0**-9)).all()


def test_what_is_wrong_is_named():
    x = np.ones((4, 48), np.float32)
    with pytest.raises(ValueError, match="multiple of 32"):
        flashinfer.mxfp8_quantize(x)
    with pytest.raises(ValueError, match="alignment is 33"):
        flashinfer.mxfp8_quantize(x[:, :32], alignment=33)
    with pytest.raises(NotImplementedError, match="sf_vec_size is 8"):
        flashinfer.fp4_quantize(x, None, 8)
    with pytest.raises(ValueError, match="sfLayout: is layout_linear"):
        flashinfer.nvfp4_quantize(x, 1.0, SfLayout.layout_linear, do_shuffle=True)
    with pytest.raises(ValueError, match="k_cache: shape is"):
        flashinfer.nvfp4_quantize_paged_kv_cache(x[None, None], x[None, None])
    mask = np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="a: shape is .*multiple of 16"):
        flashinfer.scaled_fp4_grouped_quantize(x, mask, mask)
    with pytest.raises(ValueError, match=r"mask: shape is \[2\], expected \[1\]"):
        flashinfer.mxfp8_grouped_quantize(np.ones((1, 4, 32), np.float32), mask)
    with pytest.raises(ValueError, match="mask: is float32, expected int32"):
        flashinfer.mxfp8_grouped_quantize(np.ones((1, 4, 32), np.float32), np.ones(1, np.float32))
    with pytest.raises(ValueError, match=r"a_global_sf: shape is \[1\], expected \[2\]"):
        flashinfer.scaled_fp4_grouped_quantize(np.ones((2, 4, 32), np.float32), mask,
                                               np.ones(1, np.float32))
    with pytest.raises(ValueError, match="backend is 'cute-dsl'"):
        flashinfer.mxfp4_quantize(x[:, :32], backend="cute-dsl")


def grouped_scales(scales, rows, blocks):
    """Scales [32, 4, row tiles, 4, block tiles, groups] as [groups, rows, blocks]."""
    groups = scales.shape[-1]
    found = np.empty((groups, rows, blocks), scales.dtype)
    for g in range(groups):
        for m in range(rows):
            for k in range(blocks):
                found[g, m, k] = scales[m % 32, m // 32 % 4, m // 128, k % 4, k // 4, g]
    return found


@pytest.mark.parametrize("is_gated", [False, True])
def test_nvfp4_of_groups(tensors, rng, is_gated):
    groups, rows, size = 2, 130, 80
    given = rng.standard_normal((groups, rows, 2 * size if is_gated else size))
    a = tensors.make(given, "bfloat16")
    factors = tensors.make(np.array([2.0, 5.0]), "float32")
    mask = tensors.make(np.array([130, 7], np.int32))
    function = (flashinfer.silu_and_mul_scaled_nvfp4_experts_quantize if is_gated
                else flashinfer.scaled_fp4_grouped_quantize)
    q, scales = function(a, mask, factors)
    assert tuple(q.shape) == (rows, size // 2, groups)
    assert tuple(scales.shape) == (32, 4, 2, 4, 2, groups)
    assert scales.dtype == tensors.dtype("float8_e4m3fn")
    found = grouped_scales(tensors.read(scales), rows, size // 16)
    for g in range(groups):
        x = flashinfer.silu_and_mul(a[g]) if is_gated else a[g]
        one = flashinfer.nvfp4_quantize(x, factors[g:g + 1], SfLayout.layout_linear)
        np.testing.assert_array_equal(tensors.read(q)[..., g], tensors.read(one[0]))
        codes = np.ascontiguousarray(tensors.read(one[1])).view(ml_dtypes.float8_e4m3fn)
        np.testing.assert_array_equal(found[g], codes.astype(np.float64))


def test_mxfp8_of_groups(tensors, rng):
    groups, rows, size, padded = 3, 33, 96, 128
    a = tensors.make(rng.standard_normal((groups, rows, size)) * 9, "float16")
    mask = tensors.make(np.array([33, 0, 4], np.int32))
    q, scales = flashinfer.mxfp8_grouped_quantize(a, mask)
    assert tuple(q.shape) == (rows, padded, groups)
    assert tuple(scales.shape) == (32, 4, 1, 4, 1, groups)
    codes = grouped_scales(tensors.read(scales), rows, padded // 32).astype(np.float64)
    values = np.zeros((groups, rows, padded))
    values[..., :size] = tensors.read(a)
    amax = np.abs(values.reshape(groups, rows, -1, 32)).max(axis=-1)
    expected = np.where(amax > 0, np.ceil(np.log2(np.where(amax > 0, amax, 1) / 448)) + 127, 0)
    np.testing.assert_array_equal(codes, expected)
    factor = np.repeat(2.0 ** (codes - 127), 32, axis=-1)
    np.testing.assert_array_equal(
        tensors.read(q).transpose(2, 0, 1),
        (values / factor).astype(ml_dtypes.float8_e4m3fn).astype(np.float64))


def test_nvfp4_of_a_gated_activation(tensors, rng):
    x = tensors.make(rng.standard_normal((9, 128)), "bfloat16")
    scale = tensors.make(np.full(1, 3.0), "float32")
    for layout in ({}, {"is_sf_8x4_layout": True}, {"is_sf_swizzled_layout": False}):
        q, scales = flashinfer.silu_and_mul_nvfp4_quantize(x, scale, **layout)
        expected = flashinfer.fp4_quantize(flashinfer.silu_and_mul(x), scale, **layout)
        np.testing.assert_array_equal(tensors.read(q), tensors.read(expected[0]))
        np.testing.assert_array_equal(tensors.read(scales), tensors.read(expected[1]))


@pytest.mark.parametrize("kv_layout", ["HND", "NHD"])
@pytest.mark.parametrize("gives_scales", [False, True])
def test_nvfp4_of_a_paged_cache(tensors, rng, kv_layout, gives_scales):
    pages, heads, tokens, dim = 2, 3, 8, 128
    blocks = dim // 16
    by_head = rng.standard_normal((2, pages, heads, tokens, dim))
    given = by_head if kv_layout == "HND" else by_head.swapaxes(2, 3)
    k, v = (tensors.make(np.ascontiguousarray(x), "bfloat16") for x in given)
    factors = [tensors.make(np.full(1, f), "float32") for f in (90.0, 70.0)]
    result = flashinfer.nvfp4_quantize_paged_kv_cache(
        k, v, kv_layout, *(factors if gives_scales else ()))
    for i, cache in enumerate((k, v)):
        values = tensors.read(cache)
        factor = (90.0, 70.0)[i] if gives_scales else 448 / np.abs(values).max()
        assert abs(result[2 + i] * factor - 1) < 1e-6 and isinstance(result[2 + i], float)
        q, scales = tensors.read(result[0][i]), tensors.read(result[1][i])
        assert q.shape == values.shape[:3] + (dim // 2,)
        assert scales.shape == values.shape[:3] + (blocks,)
        if kv_layout == "NHD":
            values, q, scales = (x.swapaxes(1, 2) for x in (values, q, scales))
        if i == 1:  # back from where token t and block s are
            flat = np.ascontiguousarray(scales).reshape(pages, heads, -1)
            scales = np.empty_like(scales)
            for t in range(tokens):
                for s in range(blocks):
                    scales[:, :, t, s] = flat[:, :, t // 4 * 4 * blocks + s * 4 + t % 4]
        amax = np.abs(values).reshape(pages, heads, tokens, blocks, 16).max(axis=-1)
        np.testing.assert_allclose(scales, amax * factor / 6, rtol=2.0**-4, atol=2.0**-9)
        back = unpacked(q) * np.repeat(scales, 16, axis=-1) / factor
        assert (np.abs(back - values) <= np.repeat(amax, 16, axis=-1) * 0.2).all()


SHUFFLED = {16: lambda r: r % 2 * 8 + r // 2, 32: lambda r: r % 4 * 8 + r // 4}


@pytest.mark.parametrize("epilogue_tile_m, block", [(128, 32), (64, 16), (256, 32)])
def test_shuffled_rows(tensors, rng, epilogue_tile_m, block):
    from flashinfer import fused_moe, utils

    values = rng.integers(0, 256, (256, 8)).astype(np.uint8)
    x = tensors.make(values)
    expected = np.empty_like(values)
    for row in range(256):
        expected[row // block * block + SHUFFLED[block](row % block)] = values[row]
    np.testing.assert_array_equal(
        tensors.read(flashinfer.shuffle_matrix_a(x, epilogue_tile_m)), expected)
    rows = utils.get_shuffle_matrix_a_row_indices(x, epilogue_tile_m)
    np.testing.assert_array_equal(values[np.asarray(rows)], expected)
    scales = flashinfer.shuffle_matrix_sf_a(x, epilogue_tile_m)
    np.testing.assert_array_equal(
        linear_scales(tensors.read(scales), SfLayout.layout_128x4, 256, 8), expected)
    gated = tensors.read(fused_moe.reorder_rows_for_gated_act_gemm(x))
    np.testing.assert_array_equal(gated[0::2], values[:128])
    np.testing.assert_array_equal(gated[1::2], values[128:])
    with pytest.raises(ValueError, match="input_tensor: shape is"):
        flashinfer.shuffle_matrix_a(x[:8], epilogue_tile_m)
    with pytest.raises(ValueError, match="multiples of 128 and 4"):
        flashinfer.shuffle_matrix_sf_a(x[:, :6], epilogue_tile_m)
    with pytest.raises(ValueError, match="num_elts_per_sf: is 8"):
        flashinfer.shuffle_matrix_sf_a(x, epilogue_tile_m, 8)


def test_shuffled_nvfp4(tensors, rng):
    x = tensors.make(rng.standard_normal((128, 64)), "bfloat16")
    scale = tensors.make(np.full(1, 2.0), "float32")
    q, scales = flashinfer.nvfp4_quantize(x, scale, do_shuffle=True)
    plain = flashinfer.nvfp4_quantize(x, scale, SfLayout.layout_linear)
    to = np.array([row // 32 * 32 + SHUFFLED[32](row % 32) for row in range(128)])
    np.testing.assert_array_equal(tensors.read(q)[to], tensors.read(plain[0]))
    assert tuple(scales.shape) == (128, 4)
    np.testing.assert_array_equal(
        linear_scales(tensors.read(scales), SfLayout.layout_128x4, 128, 4)[to],
        tensors.read(plain[1]))


def test_scales_over_four_or_six():
    assert nvfp4_e4m3_max() == 448 and nvfp4_e4m3_max(NVFP44Over6Config(256)) == 256
    assert NVFP44Over6Config(err_mode="mse").err_mode is NVFP44Over6ErrMode.MSE
    with pytest.raises(ValueError, match="accepted: MAE, MSE"):
        NVFP44Over6Config(err_mode="max")
