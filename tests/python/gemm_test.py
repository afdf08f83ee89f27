# SPDX-License-Identifier: Apache-2.0
"""flashinfer.gemm, grouped_mm and deep_gemm against float64 NumPy."""
import ml_dtypes
import numpy as np
import pytest
from conftest import check_close

import flashinfer
from flashinfer import deep_gemm, gemm

INDPTR = np.array([0, 5, 5, 17, 24])


def check_product(found, expected, dtype, k):
    """Sums of k terms of about 1; a float32 result sees the roundings of its partial sums."""
    check_close(found, expected, dtype, scale=k if dtype == "float32" else np.sqrt(k))


def groups_of(a, b):
    """a[rows of group g] @ b[g]ᵀ."""
    return np.concatenate([a[i:j] @ b[g].T for g, (i, j) in enumerate(zip(INDPTR, INDPTR[1:]))])


@pytest.mark.parametrize("out_dtype", ["bfloat16", "float32", "float16"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_mm_bf16(tensors, rng, out_dtype, has_bias):
    a = tensors.make(rng.standard_normal((9, 96)), "bfloat16")
    b = tensors.make(rng.standard_normal((40, 96)), "bfloat16")
    bias = tensors.make(rng.standard_normal(40), "bfloat16") if has_bias else None
    expected = tensors.read(a) @ tensors.read(b).T + (tensors.read(bias) if has_bias else 0)
    found = flashinfer.mm_bf16(a, b.T, bias, out_dtype=tensors.dtype(out_dtype))
    assert found.dtype == tensors.dtype(out_dtype)
    check_product(tensors.read(found), expected, out_dtype, 96)
    out = tensors.full((9, 40), np.nan, out_dtype)
    assert flashinfer.mm_bf16(a, b.T, bias, out=out, out_dtype=out_dtype) is out
    np.testing.assert_array_equal(tensors.read(out), tensors.read(found))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_tgv_gemm(tensors, rng, dtype, has_bias):
    a = tensors.make(rng.standard_normal((9, 96)), dtype)
    b = tensors.make(rng.standard_normal((40, 96)), dtype)
    bias = tensors.make(rng.standard_normal(40), dtype) if has_bias else None
    found = flashinfer.tgv_gemm_sm100(a, b.T, bias)
    assert found.dtype == tensors.dtype(dtype)
    expected = tensors.read(a) @ tensors.read(b).T + (tensors.read(bias) if has_bias else 0)
    check_product(tensors.read(found), expected, dtype, 96)
    with pytest.raises(ValueError, match="tgv_gemm_sm100: a is"):
        flashinfer.tgv_gemm_sm100(tensors.make(np.ones((2, 8)), "float32"), b.T, bias)


def test_bmm_bf16(tensors, rng):
    a = tensors.make(rng.standard_normal((3, 7, 64)), "bfloat16")
    b = tensors.make(rng.standard_normal((3, 64, 24)), "bfloat16")
    found = flashinfer.bmm_bf16(a, b)
    check_product(tensors.read(found), tensors.read(a) @ tensors.read(b), "bfloat16", 64)


@pytest.mark.parametrize("b_dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("out_dtype", ["bfloat16", "float16"])
def test_bmm_fp8(tensors, rng, b_dtype, out_dtype):
    a = tensors.make(rng.standard_normal((2, 9, 64)), "float8_e4m3fn")
    b = tensors.make(rng.standard_normal((2, 24, 64)), b_dtype).swapaxes(-1, -2)
    scales = [tensors.make(np.array(s), "float32") for s in (0.5, 3.0)]
    found = flashinfer.bmm_fp8(a, b, *scales, tensors.dtype(out_dtype))
    assert found.dtype == tensors.dtype(out_dtype)
    check_product(tensors.read(found), tensors.read(a) @ tensors.read(b) * 1.5, out_dtype, 64)


@pytest.mark.parametrize("is_column_major", [False, True])
@pytest.mark.parametrize("segments", ["lengths", "indptr"])
@pytest.mark.parametrize("has_indices", [False, True])
def test_segment_gemm(tensors, rng, is_column_major, segments, has_indices):
    x = tensors.make(rng.standard_normal((24, 64)), "float16")
    weights = tensors.make(rng.standard_normal((4, 32, 64)), "float16")
    indices = np.array([2, 0, 2, 1]) if has_indices else np.arange(4)
    given = ({"seg_indptr": tensors.make(INDPTR)} if segments == "indptr"
             else {"seg_lens": tensors.make(np.diff(INDPTR))})
    if has_indices:
        given["weight_indices"] = tensors.make(indices)
    wrapper = flashinfer.gemm.SegmentGEMMWrapper(tensors.full((1024,), 0, "int8"))
    weight = weights if is_column_major else tensors.make(
        np.ascontiguousarray(tensors.read(weights).swapaxes(1, 2)), "float16")
    found = wrapper.run(x, weight, 4, weight_column_major=is_column_major, **given)
    expected = groups_of(tensors.read(x), tensors.read(weights)[indices])
    check_product(tensors.read(found), expected, "float16", 64)


def test_segments_are_checked(rng):
    wrapper = flashinfer.gemm.SegmentGEMMWrapper(None)
    x, weights = np.zeros((24, 64), np.float32), np.zeros((4, 32, 64), np.float32)
    with pytest.raises(ValueError, match="seg_lens or seg_indptr"):
        wrapper.run(x, weights, 4, True)
    with pytest.raises(ValueError, match="batch_size is 3, there are 4"):
        wrapper.run(x, weights, 3, True, seg_indptr=INDPTR)
    with pytest.raises(ValueError, match="backend is 'sm100'"):
        flashinfer.gemm.SegmentGEMMWrapper(None, "sm100")


def scaled(values, scales, rows, k):
    """`values` times the scale of each block of rows x k."""
    wide = np.repeat(np.repeat(scales, rows, axis=-2), k, axis=-1)
    return values * wide[..., :values.shape[-2], :values.shape[-1]]


def fp8_groups(tensors, rng, a_shape, num_groups, n):
    """fp8 matrices with scales per 1 x 128 and 128 x 128, and their values."""
    k = a_shape[-1]
    a = tensors.make(rng.standard_normal(a_shape), "float8_e4m3fn")
    b = tensors.make(rng.standard_normal((num_groups, n, k)), "float8_e4m3fn")
    a_scale = rng.uniform(0.5, 1, a_shape[:-1] + (k // 128,)).astype(np.float32)
    b_scale = rng.uniform(0.5, 1, (num_groups, n // 128, k // 128)).astype(np.float32)
    values = (scaled(tensors.read(a), a_scale.astype(float), 1, 128),
              scaled(tensors.read(b), b_scale.astype(float), 128, 128))
    return a, b, a_scale, b_scale, values


@pytest.mark.parametrize("mode", ["K", "MN"])
def test_groupwise(tensors, rng, mode):
    a, b, a_scale, b_scale, values = fp8_groups(tensors, rng, (24, 256), 4, 128)

    def give(scale):
        return tensors.make(scale if mode == "K" else np.ascontiguousarray(scale.swapaxes(-1, -2)))

    found = gemm.group_gemm_fp8_nt_groupwise(a, b, give(a_scale), give(b_scale),
                                             tensors.make(INDPTR), scale_major_mode=mode)
    check_product(tensors.read(found), groups_of(*values), "bfloat16", 256)
    one = gemm.gemm_fp8_nt_groupwise(a, b[0], give(a_scale), give(b_scale[0]), mode,
                                     out_dtype=tensors.dtype("float32"))
    check_product(tensors.read(one), values[0] @ values[1][0].T, "float32", 256)
    if mode == "K":
        same = gemm.fp8_blockscale_gemm_sm90(a, b[0], give(a_scale), give(b_scale[0]))
        check_product(tensors.read(same), values[0] @ values[1][0].T, "bfloat16", 256)


@pytest.mark.parametrize("rows", [24, 2])
@pytest.mark.parametrize("n", [128, 256])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_groupwise_with_scales_as_trtllm_has_them(tensors, rng, rows, n, is_transposed):
    a = tensors.make(rng.standard_normal((rows, 256)), "float8_e4m3fn")
    b = tensors.make(rng.standard_normal((n, 256)), "float8_e4m3fn")
    a_scale = rng.uniform(0.5, 1, (rows, 2)).astype(np.float32)
    b_scale = rng.uniform(0.5, 1, (n // 128, 2)).astype(np.float32)
    expected = (scaled(tensors.read(a), a_scale, 1, 128)
                @ scaled(tensors.read(b), b_scale, 128, 128).T)
    a_given = tensors.make(np.ascontiguousarray(a_scale.T))  # m next to each other
    b_given = tensors.make(b_scale)
    if not is_transposed:
        a_given = a_given.T
    else:
        b_given = b_given.T
    found = gemm.gemm_fp8_nt_groupwise(a, b, a_given, b_given, backend="trtllm")
    check_product(tensors.read(found), expected, "bfloat16", 256)
    with pytest.raises(ValueError, match="b_scale: shape is"):
        gemm.gemm_fp8_nt_groupwise(a, b, a_given, b_given[:0], backend="trtllm")
    with pytest.raises(ValueError, match="backend: is 'magic'"):
        gemm.gemm_fp8_nt_groupwise(a, b, a_given, b_given, backend="magic")


def rounded_to_fp8(values, axes):
    """Blocks along `axes` as they are once quantised: scaled to 448, rounded, and back."""
    scale = np.abs(values).max(axis=axes, keepdims=True).astype(np.float32) / np.float32(448)
    scaled_values = values.astype(np.float32) * (np.float32(1) / scale)
    return scaled_values.astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale


@pytest.mark.parametrize("gives_weight_scale", [False, True])
@pytest.mark.parametrize("n", [128, 192])
def test_blockscale_of_16_bits(tensors, rng, gives_weight_scale, n):
    m, k = 5, 256
    x = tensors.make(rng.standard_normal((m, k)), "bfloat16")
    weight = tensors.make(rng.standard_normal((n, k)), "bfloat16")
    left = rounded_to_fp8(tensors.read(x).reshape(m, 2, 128), (2,)).reshape(m, k)
    blocks = np.zeros((256, k))
    blocks[:n] = tensors.read(weight)
    right = rounded_to_fp8(blocks[:-(-n // 128) * 128].reshape(-1, 128, 2, 128), (1, 3))
    right = right.reshape(-1, k)[:n]
    weight_scale = None
    if gives_weight_scale:
        weight = tensors.make(rng.standard_normal((n, k)), "float8_e4m3fn")
        scale = rng.uniform(0.5, 1, (n, 2)).astype(np.float32)
        weight_scale, right = tensors.make(scale), scaled(tensors.read(weight), scale, 1, 128)
    found = gemm.fp8_blockscale_gemm_sm90(x, weight, weight_scale=weight_scale)
    check_product(tensors.read(found), left @ right.T, "bfloat16", k)
    with pytest.raises(ValueError, match="input_scale: is given, but input is bfloat16"):
        gemm.fp8_blockscale_gemm_sm90(x, weight, x, weight_scale)
    with pytest.raises(ValueError, match="input: shape is"):
        gemm.fp8_blockscale_gemm_sm90(x[:, :100], weight)


def test_blockscaled(tensors, rng):
    a = tensors.make(rng.standard_normal((256, 128)), "float8_e4m3fn")
    b = tensors.make(rng.standard_normal((128, 128)), "float8_e4m3fn")
    a_scale, b_scale = np.float32([[0.5, 2]]), np.float32([[3]])  # [blocks of k, blocks of rows]
    found = gemm.gemm_fp8_nt_blockscaled(a, b, tensors.make(a_scale), tensors.make(b_scale))
    expected = scaled(tensors.read(a), a_scale.T, 128, 128) @ tensors.read(b).T * 3
    check_product(tensors.read(found), expected, "bfloat16", 128 * 36)


def test_deep_gemm(tensors, rng):
    a, b, a_scale, b_scale, values = fp8_groups(tensors, rng, (24, 128), 4, 128)
    rows = np.repeat(np.arange(4, dtype=np.int32), np.diff(INDPTR))
    rows[3] = -1
    d = tensors.full((24, 128), 7.0, "bfloat16")
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a, tensors.make(a_scale)),
                                               (b, tensors.make(b_scale)), d, tensors.make(rows))
    expected = groups_of(*values)
    expected[3] = 7
    check_product(tensors.read(d), expected, "bfloat16", 128)


def test_deep_gemm_masked(tensors, rng):
    a, b, a_scale, b_scale, values = fp8_groups(tensors, rng, (3, 6, 128), 3, 128)
    counts = np.array([2, 0, 6], np.int32)
    d = tensors.full((3, 6, 128), 7.0, "bfloat16")
    deep_gemm.m_grouped_fp8_gemm_nt_masked((a, tensors.make(a_scale)), (b, tensors.make(b_scale)),
                                           d, tensors.make(counts), 4)
    expected = values[0] @ values[1].swapaxes(1, 2)
    for g, count in enumerate(counts):
        expected[g, count:] = 7
    check_product(tensors.read(d), expected, "bfloat16", 128)


def test_grouped_mm(tensors, rng):
    a = tensors.make(rng.standard_normal((24, 64)), "bfloat16")
    b = tensors.make(rng.standard_normal((4, 32, 64)), "bfloat16")
    expected = groups_of(tensors.read(a), tensors.read(b))
    for dtype in ("bfloat16", "float16"):
        found = flashinfer.grouped_mm_bf16(a, b, tensors.make(INDPTR), out_dtype=dtype)
        check_product(tensors.read(found), expected, dtype, 64)
    a, b = (tensors.make(tensors.read(x), "float8_e4m3fn") for x in (a, b))
    expected = groups_of(tensors.read(a), tensors.read(b))
    alpha = tensors.make(np.full(1, 0.5), "float32")
    for given, factor in ((None, 1.0), (alpha, 0.5)):
        found = flashinfer.grouped_mm_fp8(a, b, tensors.make(INDPTR), given)
        check_product(tensors.read(found), expected * factor, "bfloat16", 64)


def test_router_products(tensors, rng):
    a = tensors.make(rng.standard_normal((5, 7168)), "bfloat16")
    b = tensors.make(rng.standard_normal((128, 7168)), "bfloat16")
    bias = tensors.make(rng.standard_normal(128), "bfloat16")
    product = tensors.read(a) @ tensors.read(b).T
    for function, arguments, expected in (
            (gemm.mm_M1_16_K7168_N128, (a, b.T), product),
            (gemm.tinygemm_bf16, (a, b), product)):
        out = tensors.full((5, 128), np.nan, "float32")
        function(*arguments, out)
        check_product(tensors.read(out), expected, "float32", 7168)
    out = tensors.full((5, 128), np.nan, "bfloat16")
    gemm.tinygemm_bf16(a, b, out, bias)
    check_product(tensors.read(out), product + tensors.read(bias), "bfloat16", 7168)
    with pytest.raises(ValueError, match="expected k=7168 and n=256"):
        gemm.mm_M1_16_K7168_N256(a, b.T, out)


def test_wrong_arguments():
    a = np.ones((4, 8), np.float32)
    with pytest.raises(ValueError, match="a is float32"):
        flashinfer.mm_bf16(a, a.T)
    with pytest.raises(ValueError, match="backend is 'magic'"):
        flashinfer.mm_bf16(a, a.T, backend="magic")


@pytest.mark.parametrize("name", ["gemm", "gemm_persistent", "gemm_descriptor_persistent"])
@pytest.mark.parametrize("dtype, out_dtype", [("float16", None), ("bfloat16", "float32"),
                                              ("float8_e4m3fn", None)])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_products_of_triton(tensors, rng, name, dtype, out_dtype, beta):
    function = getattr(flashinfer.triton.sm_constraint_gemm, name)
    a = tensors.make(rng.standard_normal((9, 64)), dtype)
    b = tensors.make(rng.standard_normal((24, 64)), dtype)
    result = out_dtype or ("bfloat16" if dtype == "float8_e4m3fn" else dtype)
    c = tensors.make(rng.standard_normal((9, 24)), result)
    expected = 2 * tensors.read(a) @ tensors.read(b).T + beta * tensors.read(c)
    if beta == 0 and dtype == "float16":
        c = None
    options = {} if name == "gemm" else {"num_sms": 16}
    found = function(a, b if "descriptor" in name else b.T, c, 2.0, beta, out_dtype, **options)
    assert c is None or found is c
    assert found.dtype == tensors.dtype(result)
    check_product(tensors.read(found), expected, result, 64)


def test_what_products_of_triton_do_not_take():
    gemm_of = flashinfer.triton.sm_constraint_gemm.gemm
    a = np.ones((3, 16), np.float16)
    with pytest.raises(ValueError, match="b: shape is"):
        gemm_of(a, a)
    with pytest.raises(ValueError, match="beta: is 1.0, but there is no c"):
        gemm_of(a, a.T, beta=1.0)
    with pytest.raises(ValueError, match="c: is float32 of shape"):
        gemm_of(a, a.T, np.ones((3, 3), np.float32))


def read_fp4(tensors, q, scales, block, is_nvfp4):
    """Values of pairs of e2m1 with row-major scales."""
    codes = tensors.read(q)
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    values = grid[np.stack([codes & 15, codes >> 4], axis=-1).reshape(codes.shape[0], -1)]
    scale = tensors.read(scales)
    scale = (scale.view(ml_dtypes.float8_e4m3fn).astype(np.float64) if is_nvfp4
             else 2.0 ** (scale.astype(int) - 127))
    return values * np.repeat(scale, block, axis=-1)


@pytest.mark.parametrize("is_nvfp4", [True, False])
@pytest.mark.parametrize("layout", ["tiles", "8x4", "linear"])
@pytest.mark.parametrize("out_dtype", ["bfloat16", "float32"])
def test_mm_fp4(tensors, rng, is_nvfp4, layout, out_dtype):
    m, n, k, block = 9, 40, 96, 16 if is_nvfp4 else 32
    scale = tensors.make(np.full(1, 3.0), "float32") if is_nvfp4 else None
    given, values = [], []
    for rows in (m, n):
        x = tensors.make(rng.standard_normal((rows, k)), "bfloat16")
        q, linear = flashinfer.fp4_quantize(x, scale, block, not is_nvfp4,
                                            is_sf_swizzled_layout=False)
        values.append(read_fp4(tensors, q, linear, block, is_nvfp4))
        is_8x4 = layout == "8x4" and rows == m
        scales = linear if layout == "linear" else flashinfer.fp4_quantize(
            x, scale, block, not is_nvfp4, is_sf_8x4_layout=is_8x4)[1]
        given.append((q, scales))
    (a, a_scale), (b, b_scale) = given
    alpha = tensors.make(np.full(1, 0.25), "float32")
    out = tensors.full((m, n), np.nan, out_dtype)
    found = flashinfer.mm_fp4(a, b.T, a_scale, b_scale.T, alpha, tensors.dtype(out_dtype), out,
                              block, layout == "8x4", use_nvfp4=is_nvfp4)
    assert found is out
    check_product(tensors.read(found), 0.25 * values[0] @ values[1].T, out_dtype, k * 9)
    with pytest.raises(NotImplementedError, match="backend: is 'trtllm'"):
        flashinfer.mm_fp4(a, b.T, a_scale, b_scale.T, backend="trtllm")
    with pytest.raises(ValueError, match="block_size: is 8"):
        flashinfer.mm_fp4(a, b.T, a_scale, b_scale.T, block_size=8)
    with pytest.raises(ValueError, match="a_descale: shape is"):
        flashinfer.mm_fp4(a, b.T, a_scale[:1], b_scale.T, block_size=block, use_nvfp4=is_nvfp4)
    with pytest.raises(ValueError, match="b: shape is"):
        flashinfer.mm_fp4(a, b, a_scale, b_scale, block_size=block, use_nvfp4=is_nvfp4)


@pytest.mark.parametrize("layout", ["tiles", "8x4", "linear"])
def test_mm_mxfp8(tensors, rng, layout):
    from flashinfer import SfLayout

    m, n, k = 9, 40, 96
    given, values = [], []
    for rows in (m, n):
        x = tensors.make(rng.standard_normal((rows, k)), "bfloat16")
        kind = {"tiles": SfLayout.layout_128x4, "linear": SfLayout.layout_linear}.get(
            layout, SfLayout.layout_8x4 if rows == m else SfLayout.layout_128x4)
        q, scales = flashinfer.mxfp8_quantize(x, sf_swizzle_layout=kind)
        linear = flashinfer.mxfp8_quantize(x, sf_swizzle_layout=SfLayout.layout_linear)[1]
        factor = 2.0 ** (tensors.read(linear).reshape(rows, -1).astype(int) - 127)
        values.append(tensors.read(q) * np.repeat(factor, 32, axis=-1))
        given.append((q, scales.reshape((rows, -1)) if layout == "linear" else scales))
    (a, a_scale), (b, b_scale) = given
    found = flashinfer.mm_mxfp8(a, b.T, a_scale, b_scale.T if layout == "linear" else b_scale,
                                out_dtype="float32", use_8x4_sf_layout=layout == "8x4")
    check_product(tensors.read(found), values[0] @ values[1].T, "float32", k)
    with pytest.raises(ValueError, match="backend: is 'magic'"):
        flashinfer.mm_mxfp8(a, b.T, a_scale, b_scale, backend="magic")


@pytest.mark.parametrize("product", [
    lambda a, b, m: flashinfer.grouped_mm.grouped_mm_bf16(a, b, m, backend="magic"),
    lambda a, b, m: flashinfer.grouped_mm.grouped_mm_fp8(a, b, m, backend="magic"),
    lambda a, b, m: flashinfer.grouped_mm.grouped_mm_mxfp8(a, b, a, b, m, backend="magic"),
    lambda a, b, m: flashinfer.grouped_mm.grouped_mm_fp4(a, b, a, b, m, backend="magic"),
    lambda a, b, m: gemm.group_gemm_fp8_nt_groupwise(a, b, a, b, m, backend="magic"),
])
def test_groups_refuse_backends_that_do_not_exist(product):
    a, b = np.zeros((4, 32), np.float32), np.zeros((1, 8, 32), np.float32)
    with pytest.raises(ValueError, match="backend is 'magic'"):
        product(a, b, np.array([0, 4], np.int32))
