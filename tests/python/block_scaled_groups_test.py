# SPDX-License-Identifier: Apache-2.0
"""Products of groups and of weights in 4 and 8 bits against float64 NumPy."""
import ml_dtypes
import numpy as np
import pytest
from gemm_test import check_product, read_fp4

import flashinfer
from flashinfer import SfLayout, gemm

LENS = [5, 0, 140, 12]
BOUNDS = np.concatenate([[0], np.cumsum(LENS)]).astype(np.int32)


def quantized(tensors, x, kind, layout="linear"):
    """(values, q, scales) of a matrix in "mxfp8", "mxfp4" or "nvfp4"."""
    tiles = layout == "tiles"
    if kind == "mxfp8":
        q, linear = flashinfer.mxfp8_quantize(x, sf_swizzle_layout=SfLayout.layout_linear)
        linear = linear.reshape((x.shape[0], -1))
        factor = 2.0 ** (tensors.read(linear).astype(int) - 127)
        values = tensors.read(q) * np.repeat(factor, 32, axis=-1)
        scales = flashinfer.mxfp8_quantize(x)[1] if tiles else linear
    else:
        block, scale = (32, None) if kind == "mxfp4" else (
            16, tensors.make(np.full(1, 3.0), "float32"))
        q, linear = flashinfer.fp4_quantize(x, scale, block, kind == "mxfp4",
                                            is_sf_swizzled_layout=False)
        values = read_fp4(tensors, q, linear, block, kind == "nvfp4")
        scales = flashinfer.fp4_quantize(x, scale, block, kind == "mxfp4")[1] if tiles else linear
    return values, q, scales


def stacked(tensors, parts):
    """Tensors one behind another."""
    return tensors.make(np.concatenate([np.asarray(as_read(tensors, p)) for p in parts]))


def as_read(tensors, p):
    return tensors.read(p.view(tensors.dtype("uint8")) if p.dtype != tensors.dtype("uint8") else p)


def groups(tensors, rng, kind, k, offsets=None):
    """(values, q, scales) of rows in groups, with tiles of each group behind those of the one
    before, or at `offsets` of 128 rows with garbage between."""
    parts = [quantized(tensors, tensors.make(rng.standard_normal((n, k)), "bfloat16"), kind, "tiles")
             for n in LENS if n]
    block = 16 if kind == "nvfp4" else 32
    columns = -(-k // block // 4) * 4
    tiles = [as_read(tensors, s).reshape(-1, columns) for _, _, s in parts]
    if offsets is not None:
        rows = np.full((offsets[-1] + 128, columns), 255, np.uint8)
        for start, part in zip([o for o, n in zip(offsets, LENS) if n], tiles):
            rows[start:start + len(part)] = part
        tiles = [rows]
    q = stacked(tensors, [q for _, q, _ in parts])
    if kind == "mxfp8":
        q = q.view(tensors.dtype("float8_e4m3fn"))
    return np.concatenate([v for v, _, _ in parts]), q, tensors.make(np.concatenate(tiles))


def weights(tensors, rng, kind, n, k, layout="tiles", count=len(LENS)):
    """(values, q, scales) of a matrix a group, stacked."""
    parts = [quantized(tensors, tensors.make(rng.standard_normal((n, k)), "bfloat16"), kind, layout)
             for _ in range(count)]
    q = stacked(tensors, [q for _, q, _ in parts]).reshape((count, n, -1))
    if kind == "mxfp8":
        q = q.view(tensors.dtype("float8_e4m3fn"))
    scales = stacked(tensors, [s.reshape((1, -1)) for _, _, s in parts])
    columns = -(-k // (16 if kind == "nvfp4" else 32) // (4 if layout == "tiles" else 1)) * (
        4 if layout == "tiles" else 1)
    return np.stack([v for v, _, _ in parts]), q, scales.reshape((count, -1, columns))


def products(a, b):
    return np.concatenate([a[i:j] @ b[g].T for g, (i, j) in enumerate(zip(BOUNDS, BOUNDS[1:]))])


def padded(bounds):
    """Rows of 128 where the original wants groups' scales."""
    return [(m + g * 127) // 128 * 128 for g, m in enumerate(bounds[:-1])]


@pytest.mark.parametrize("a_kind, b_kind", [("mxfp8", "mxfp4"), ("nvfp4", "nvfp4")])
def test_group_gemm(tensors, rng, a_kind, b_kind):
    n, k = 40, 96
    a, a_q, a_scale = groups(tensors, rng, a_kind, k, padded(BOUNDS))
    b, b_q, b_scale = weights(tensors, rng, b_kind, n, k)
    indptr = tensors.make(BOUNDS)
    expected = products(a, b)
    if a_kind == "mxfp8":
        found = gemm.group_gemm_mxfp4_nt_groupwise(a_q, b_q, a_scale, b_scale, indptr,
                                                   out_dtype="float32")
    else:
        alpha = rng.uniform(0.5, 2, len(LENS)).astype(np.float32)
        found = gemm.group_gemm_nvfp4_nt_groupwise(a_q, b_q, a_scale, b_scale, indptr,
                                                   tensors.make(alpha), out_dtype="float32")
        expected *= np.repeat(alpha, LENS)[:, None]
    check_product(tensors.read(found), expected, "float32", k * 9)
    with pytest.raises(ValueError, match="m_indptr: is"):
        gemm.group_gemm_mxfp4_nt_groupwise(a_q, b_q, a_scale, b_scale, tensors.make(BOUNDS[:-1]))
    with pytest.raises(ValueError, match="a_scale: shape is|a: is uint8"):
        gemm.group_gemm_mxfp4_nt_groupwise(a_q, b_q, a_scale[:7], b_scale, indptr)


@pytest.mark.parametrize("kind", ["mxfp8", "mxfp4", "nvfp4"])
@pytest.mark.parametrize("layout", ["linear", "tiles", "tiles of groups"])
def test_grouped_mm(tensors, rng, kind, layout):
    n, k = 40, 96
    if layout == "tiles of groups":
        a, a_q, a_scale = groups(tensors, rng, kind, k)
    else:
        a, a_q, a_scale = quantized(
            tensors, tensors.make(rng.standard_normal((BOUNDS[-1], k)), "bfloat16"), kind, layout)
    b, b_q, b_scale = weights(tensors, rng, kind, n, k,
                              "linear" if layout == "linear" else "tiles")
    indptr, out = tensors.make(BOUNDS), tensors.full((BOUNDS[-1], n), np.nan, "float16")
    if kind == "mxfp8":
        found = flashinfer.grouped_mm_mxfp8(a_q, b_q, a_scale, b_scale, indptr, out)
        expected = products(a, b)
    else:
        found = flashinfer.grouped_mm_fp4(a_q, b_q, a_scale, b_scale, indptr,
                                          tensors.make(np.full(1, 0.5), "float32"), out,
                                          block_size=16 if kind == "nvfp4" else 32)
        expected = 0.5 * products(a, b)
    assert found is out
    check_product(tensors.read(out), expected, "float16", k * 9)


def test_bmm_mxfp8(tensors, rng):
    x = tensors.make(rng.standard_normal((3, 20, 64)), "bfloat16")
    y = tensors.make(rng.standard_normal((3, 24, 64)), "bfloat16")
    values, given = [], []
    for t in (x, y):
        q, scales = flashinfer.mxfp8_quantize(t)  # tiles of all rows
        linear = flashinfer.mxfp8_quantize(t, sf_swizzle_layout=SfLayout.layout_linear)[1]
        factor = 2.0 ** (tensors.read(linear).reshape(3, -1, 2).astype(int) - 127)
        values.append(tensors.read(q) * np.repeat(factor, 32, axis=-1))
        given.append((q, scales))
    (a, a_scale), (b, b_scale) = given
    found = flashinfer.bmm_mxfp8(a, b.swapaxes(-1, -2), a_scale, b_scale, "float32")
    check_product(tensors.read(found), values[0] @ values[1].swapaxes(1, 2), "float32", 64)
    with pytest.raises(ValueError, match="B: shape is"):
        flashinfer.bmm_mxfp8(a, b[0], a_scale, b_scale, "float32")


@pytest.mark.parametrize("layout", ["linear", "tiles"])
def test_nvfp4_weights(tensors, rng, layout):
    a = tensors.make(rng.standard_normal((9, 96)), "bfloat16")
    values, q, scales = quantized(
        tensors, tensors.make(rng.standard_normal((40, 96)), "bfloat16"), "nvfp4", layout)
    alpha = tensors.make(np.full(1, 0.25), "float32")
    prepared = gemm.prepare_bf16_fp4_weights(q, scales, alpha, backend="cudnn")
    found = gemm.mm_bf16_fp4(a, *prepared, backend="cudnn", out_dtype="float32")
    check_product(tensors.read(found), 0.25 * tensors.read(a) @ values.T, "float32", 96 * 9)
    with pytest.raises(ValueError, match="backend: is 'trtllm'"):
        gemm.mm_bf16_fp4(a, *prepared, backend="trtllm")
    with pytest.raises(ValueError, match="a: is float16"):
        gemm.mm_bf16_fp4(tensors.make(np.ones((2, 96)), "float16"), *prepared, backend="cudnn")


def test_svdquant(tensors, rng):
    m, n, k, rank, alpha = 9, 40, 96, 8, 0.5
    x = tensors.make(rng.standard_normal((m, k)), "bfloat16")
    smooth = tensors.make(rng.uniform(0.5, 2, k), "bfloat16")
    scale = tensors.make(np.full(1, 3.0), "float32")
    q, scales = gemm.nvfp4_quantize_smooth(x, smooth, scale)
    product = tensors.make(tensors.read(x) * tensors.read(smooth), "float32")
    same = flashinfer.nvfp4_quantize(product, scale)
    for a, b in zip((q, scales), same):
        np.testing.assert_array_equal(tensors.read(a), tensors.read(b))
    linear = flashinfer.nvfp4_quantize(product, scale, SfLayout.layout_linear)[1]
    left = read_fp4(tensors, q, linear, 16, True)
    right, w, w_scales = quantized(
        tensors, tensors.make(rng.standard_normal((n, k)), "bfloat16"), "nvfp4", "tiles")
    l2 = tensors.make(rng.standard_normal((k, rank)), "bfloat16")
    l1 = tensors.make(rng.standard_normal((n, rank)), "bfloat16")
    bias = tensors.make(rng.standard_normal(n), "bfloat16")
    found = gemm.svdquant_linear(x, w, w_scales, tensors.make(np.full(1, alpha), "float32"), smooth,
                                 l2, l1, scale, bias)
    down = (tensors.read(x) @ tensors.read(l2)).astype(ml_dtypes.bfloat16).astype(float)
    expected = alpha * (left @ right.T + down @ tensors.read(l1).T) + tensors.read(bias)
    # The product of low rank is rounded to bfloat16 on its way, to a neighbour at times.
    check_product(tensors.read(found), expected, "bfloat16", k * 36)
    with pytest.raises(ValueError, match="d, l1: shapes are"):
        gemm.mm_nvfp4_svdquant(q, w, scales, w_scales, alpha, l1, l1)


def test_prepared_fp8_weights(tensors, rng):
    a = tensors.make(rng.standard_normal((5, 256)), "float8_e4m3fn")
    w = tensors.make(rng.standard_normal((128, 256)), "float8_e4m3fn")
    prepared = flashinfer.prepare_low_latency_gemm_weights(w, {})
    assert tuple(prepared.shape) == (2, 128, 128)
    alpha = tensors.make(np.full(1, 0.5), "float32")
    expected = 0.5 * tensors.read(a) @ tensors.read(w).T
    check_product(tensors.read(flashinfer.mm_fp8(a, prepared, alpha)), expected, "bfloat16", 256)
    out = tensors.full((5, 128), np.nan, "float32")
    assert flashinfer.mm_fp8(a, prepared, 0.5, out=out) is out
    check_product(tensors.read(out), expected, "float32", 256)
    with pytest.raises(ValueError, match="w: shape is"):
        flashinfer.prepare_low_latency_gemm_weights(w[:100])
    with pytest.raises(ValueError, match="B: shape is"):
        flashinfer.mm_fp8(a, prepared[:1], alpha)
    with pytest.raises(ValueError, match="backend: is 'cutlass'"):
        flashinfer.mm_fp8(a, prepared, alpha, backend="cutlass")
