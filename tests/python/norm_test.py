# SPDX-License-Identifier: Apache-2.0
"""flashinfer.norm against float64 NumPy."""
import numpy as np
import pytest
from conftest import check_close

import flashinfer


def rms(x, weight, eps):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 64), (19, 576), (3, 5, 128)])
@pytest.mark.parametrize("gives_out", [False, True])
def test_rmsnorm(tensors, rng, dtype, shape, gives_out):
    x = tensors.make(rng.standard_normal(shape), dtype)
    weight = tensors.make(rng.standard_normal(shape[-1]), dtype)
    out = tensors.full(shape, np.nan, dtype) if gives_out else None
    result = flashinfer.rmsnorm(x, weight, 1e-5, out)
    assert out is None or result is out
    assert result.dtype == x.dtype
    expected = rms(tensors.read(x), tensors.read(weight), 1e-5)
    check_close(tensors.read(result), expected, dtype)


def layer(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * gamma + beta


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gemma_rmsnorm(tensors, rng, dtype):
    x = tensors.make(rng.standard_normal((5, 96)), dtype)
    weight = tensors.make(rng.standard_normal(96), dtype)
    result = flashinfer.gemma_rmsnorm(x, weight)
    check_close(tensors.read(result), rms(tensors.read(x), 1 + tensors.read(weight), 1e-6), dtype)


@pytest.mark.parametrize("name, offset", [("fused_add_rmsnorm", 0), ("gemma_fused_add_rmsnorm", 1)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_fused_add_rmsnorm(tensors, rng, name, offset, dtype):
    x, residual = (tensors.make(rng.standard_normal((6, 128)), dtype) for _ in range(2))
    weight = tensors.make(rng.standard_normal(128), dtype)
    total = tensors.read(x) + tensors.read(residual)
    assert getattr(flashinfer, name)(x, residual, weight, 1e-5) is None
    check_close(tensors.read(residual), total, dtype)
    check_close(tensors.read(x), rms(total, offset + tensors.read(weight), 1e-5), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_layernorm(tensors, rng, dtype):
    x = tensors.make(rng.standard_normal((5, 100)) + 3, dtype)
    gamma, beta = (tensors.make(rng.standard_normal(100), "float32") for _ in range(2))
    result = flashinfer.layernorm(x, gamma, beta, 1e-5)
    expected = layer(tensors.read(x), tensors.read(gamma), tensors.read(beta), 1e-5)
    check_close(tensors.read(result), expected, dtype, scale=4.0)


@pytest.mark.parametrize("fp8", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("as_tensor", [False, True, "0-d"])
def test_quantised_outputs(tensors, rng, fp8, as_tensor):
    x = tensors.make(rng.standard_normal((4, 64)), "bfloat16")
    residual = tensors.make(rng.standard_normal((4, 64)), "bfloat16")
    weight = tensors.make(rng.standard_normal(64), "bfloat16")
    beta = tensors.make(rng.standard_normal(64), "bfloat16")
    scale = 0.25
    if as_tensor:
        scale = tensors.make(np.full(() if as_tensor == "0-d" else (1,), scale), "float32")
    values = tensors.read(x), tensors.read(residual), tensors.read(weight), tensors.read(beta)
    total = values[0] + values[1]
    outs = [tensors.full((4, 64), np.nan, fp8) for _ in range(3)]
    flashinfer.norm.rmsnorm_quant(outs[0], x, weight, scale)
    flashinfer.norm.layernorm_quant(outs[1], x, weight, beta, scale)
    flashinfer.norm.fused_add_rmsnorm_quant(outs[2], x, residual, weight, scale)
    expected = [rms(values[0], values[2], 1e-6), layer(values[0], values[2], values[3], 1e-6),
                rms(total, values[2], 1e-6)]
    for out, value in zip(outs, expected):
        check_close(tensors.read(out), value / 0.25, fp8, scale=2.0**-5)
    check_close(tensors.read(residual), total, "bfloat16")
    np.testing.assert_array_equal(tensors.read(x), values[0])


@pytest.mark.parametrize("dtype, out_dtype", [("bfloat16", None), ("bfloat16", "bfloat16"),
                                              ("bfloat16", "float8_e4m3fn"), ("float32", None)])
def test_fused_rmsnorm_silu(tensors, rng, dtype, out_dtype):
    x = tensors.make(rng.standard_normal((5, 96)) * 3, dtype)
    weight = tensors.make(rng.standard_normal(96), dtype)
    out = None if out_dtype is None else tensors.full((5, 96), np.nan, out_dtype)
    result = flashinfer.fused_rmsnorm_silu(x, weight, 1e-5, out)
    assert out is None or result is out
    normed = rms(tensors.read(x), tensors.read(weight), 1e-5)
    check_close(tensors.read(result), normed / (1 + np.exp(-normed)), out_dtype or dtype,
                scale=2.0**-5 if out_dtype == "float8_e4m3fn" else 1.0)


def test_fused_rmsnorm_silu_of_fp4(rng):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("torch has no type of four bits")
    x = torch.from_numpy(rng.standard_normal((5, 64))).to(torch.bfloat16)
    weight = torch.ones(64, dtype=torch.bfloat16)
    out = torch.zeros((5, 32), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    q, scales = flashinfer.fused_rmsnorm_silu(x, weight, out=out)
    assert q is out and scales.shape == (5, 4) and scales.dtype == torch.float8_e4m3fn
    normed = rms(x.double().numpy(), 1.0, 1e-6)
    expected = normed / (1 + np.exp(-normed))
    codes = q.view(torch.uint8).numpy()
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    found = grid[np.stack([codes & 15, codes >> 4], axis=-1).reshape(5, 64)]
    found *= np.repeat(scales.double().numpy(), 16, axis=-1)
    amax = np.abs(expected).reshape(5, 4, 16).max(axis=-1)
    assert np.abs(scales.double().numpy() - amax / 6).max() <= (amax / 6).max() / 16 + 2.0**-10
    assert (np.abs(found - expected) <= np.repeat(amax, 16, axis=-1) * 0.2).all()
    with pytest.raises(ValueError, match="block_scale: is float32 of shape"):
        flashinfer.fused_rmsnorm_silu(x, weight, out=out, block_scale=torch.zeros(5, 4))


def test_what_fused_rmsnorm_silu_does_not_take():
    x, weight = np.ones((2, 24), np.float32), np.ones(24, np.float32)
    with pytest.raises(ValueError, match="input: shape is"):
        flashinfer.fused_rmsnorm_silu(x[0], weight)
    with pytest.raises(ValueError, match="out: is float16, accepted: float32"):
        flashinfer.fused_rmsnorm_silu(x, weight, out=x.astype(np.float16))
    with pytest.raises(ValueError, match="out: shape is"):
        flashinfer.fused_rmsnorm_silu(x, weight, out=x[:1])
    with pytest.raises(ValueError, match="weight"):
        flashinfer.fused_rmsnorm_silu(x, weight[:3])


def test_names_still_to_come_say_so():
    for name in ("fused_qk_rmsnorm_rope", "rmsnorm_fp4quant"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(flashinfer, name)(None)


def test_names_of_triton(tensors, rng):
    from flashinfer import triton

    x, residual, weight = (tensors.make(rng.standard_normal(s), "float32")
                           for s in ((3, 64), (3, 64), 64))
    out = tensors.full((3, 64), np.nan, "float32")
    triton.norm.rms_norm(x, weight, out, 1e-6)
    assert (tensors.read(out) == tensors.read(flashinfer.rmsnorm(x, weight))).all()
    both = tensors.read(x) + tensors.read(residual)
    triton.norm.rms_norm_add_residual(x, residual, weight, 1e-6)
    np.testing.assert_allclose(tensors.read(residual), both, rtol=1e-6)
    half = triton.activation.silu_and_mul(x)
    assert (tensors.read(half) == tensors.read(flashinfer.silu_and_mul(x))).all()
    with pytest.raises(NotImplementedError, match="out_scale"):
        triton.norm.rms_norm(x, weight, out, 1e-6, out_scale=1.0)
