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


@pytest.mark.parametrize("form", ["gamma_beta", "gate", "residual", "alone"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("gives_out", [False, True])
def test_norms_of_diffusion_transformers(tensors, rng, form, has_bias, gives_out):
    from flashinfer import diffusion_ops

    shape = (2, 5, 96)
    x, residual = (tensors.make(rng.standard_normal(shape), "bfloat16") for _ in range(2))
    parts = tensors.make(rng.standard_normal((2, 5, 6, 96)), "bfloat16")
    gate, scale, shift = (parts[:, :, i] for i in (2, 1, 4))
    biases = {name: tensors.make(rng.standard_normal((1, 96)), "float32") if has_bias else None
              for name in ("gate_bias", "scale_bias", "shift_bias")}
    gamma, beta = (tensors.make(rng.standard_normal(96), "float32") for _ in range(2))
    read = tensors.read

    def biased(values, name):
        return read(values) + (read(biases[name]) if has_bias else 0)

    outs = {name: tensors.full(shape, np.nan, "bfloat16") if gives_out else None
            for name in ("residual_out", "norm_out")}
    total = read(x) * (biased(gate, "gate_bias") if form in ("gamma_beta", "gate") else 1)
    total = total + (0 if form == "alone" else read(residual))
    if form == "gamma_beta":
        got = diffusion_ops.fused_dit_gate_residual_layernorm_gamma_beta(
            x, residual, gate, gamma, beta, gate_bias=biases["gate_bias"], epsilon=1e-5, **outs)
        expected = layer(total, read(gamma), read(beta), 1e-5)
    else:
        expected = (layer(total, 1.0, 0.0, 1e-5) * (1 + biased(scale, "scale_bias"))
                    + biased(shift, "shift_bias"))
        if form == "gate":
            got = diffusion_ops.fused_dit_gate_residual_layernorm_scale_shift(
                x, residual, gate, scale, shift, epsilon=1e-5, **biases, **outs)
        else:
            del biases["gate_bias"]
            got = diffusion_ops.fused_dit_residual_layernorm_scale_shift(
                x, scale, shift, residual=None if form == "alone" else residual, epsilon=1e-5,
                **biases, **outs)
    assert not gives_out or (got[0] is outs["residual_out"] and got[1] is outs["norm_out"])
    check_close(read(got[0]), total, "bfloat16")
    check_close(read(got[1]), expected, "bfloat16", scale=4.0)


def test_what_norms_of_diffusion_transformers_do_not_take():
    norm_of = flashinfer.norm.fused_dit_residual_layernorm_scale_shift
    x = np.ones((1, 2, 64), np.float32)
    with pytest.raises(NotImplementedError, match="use_nvfp4=True"):
        norm_of(x, x, x, use_nvfp4=True)
    with pytest.raises(ValueError, match="input: shape is"):
        norm_of(x[0], x, x)
    with pytest.raises(ValueError, match="residual: shape is"):
        norm_of(x, x, x, residual=x[:, :1])
    with pytest.raises(ValueError, match="shift_bias: shape is"):
        norm_of(x, x, x, shift_bias=np.ones(63, np.float32))
    with pytest.raises(ValueError, match="norm_out: is float32 of shape"):
        norm_of(x, x, x, norm_out=x[:, :1])
    alone = norm_of(x, x, x)[0]
    assert alone is not x and (alone == x).all()


VIDEO = dict(ppf=3, pph=2, ppw=4, num_frame_channels=24, num_height_channels=20,
             num_width_channels=20, num_heads_q=3, num_heads_k=2, num_heads_v=1, head_dim=64)


def rotated_by_places(x, interleave, base):
    """x ``[24 · n, heads, 64]``, one pair at a time."""
    out = np.empty_like(x)
    for t in range(len(x)):
        place = (t % 24 // 8, t % 8 // 4, t % 4)
        pair = 0
        for where, count in zip(place, (24, 20, 20)):
            for i in range(count // 2):
                angle = where * base ** (-2.0 * i / count)
                a, b = (2 * pair, 2 * pair + 1) if interleave else (pair, pair + 32)
                out[t, :, a] = x[t, :, a] * np.cos(angle) - x[t, :, b] * np.sin(angle)
                out[t, :, b] = x[t, :, b] * np.cos(angle) + x[t, :, a] * np.sin(angle)
                pair += 1
    return out


@pytest.mark.parametrize("interleave", [True, False])
@pytest.mark.parametrize("is_qk_norm", [True, False])
@pytest.mark.parametrize("output_fp8", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
def test_fused_qk_rmsnorm_rope(tensors, rng, interleave, is_qk_norm, output_fp8, rank):
    shape = (48, 6 * 64) if rank == 2 else (2, 24, 6 * 64)
    qkv = tensors.make(rng.standard_normal(shape), "bfloat16")
    weights = [tensors.make(rng.uniform(0.5, 2, n * 64), "bfloat16") for n in (3, 2)]
    dtype = "float8_e4m3fn" if output_fp8 else "bfloat16"
    v_out = tensors.full((*shape[:-1], 1, 64), np.nan, dtype) if output_fp8 else None
    got = flashinfer.fused_qk_rmsnorm_rope(
        qkv, *weights, **VIDEO, eps=1e-5, base=500.0, interleave=interleave,
        is_qk_norm=is_qk_norm, output_fp8=output_fp8, output_quant_scale=2.0, v_quant_scale=0.5,
        v_out=v_out)
    assert v_out is None or got[2] is v_out
    values = tensors.read(qkv).reshape(48, -1)
    parts = [values[:, :192], values[:, 192:320], values[:, 320:]]
    for i, (x, heads) in enumerate(zip(parts, (3, 2, 1))):
        if i < 2 and is_qk_norm:
            x = rms(x, tensors.read(weights[i]), 1e-5)
        x = x.reshape(48, heads, 64)
        if i < 2:
            x = rotated_by_places(x, interleave, 500.0)
        if output_fp8:
            x = x * (0.5 if i == 2 else 2.0)
        assert tuple(got[i].shape) == (*shape[:-1], heads, 64)
        check_close(tensors.read(got[i]).reshape(48, heads, 64), x, dtype,
                    scale=2.0**-5 if output_fp8 else 1.0)


def test_what_fused_qk_rmsnorm_rope_does_not_take(tensors):
    qkv = tensors.full((24, 384), 1, "bfloat16")
    ones = tensors.full((192,), 1, "bfloat16"), tensors.full((128,), 1, "bfloat16")

    def call(x=qkv, weights=ones, **options):
        return flashinfer.fused_qk_rmsnorm_rope(x, *weights, **{**VIDEO, **options})

    for words, options in (("head_dim: is 96", {"head_dim": 96}),
                           ("num_heads_q, num_heads_k", {"num_heads_q": 40}),
                           ("whose sum is head_dim", {"num_frame_channels": 20}),
                           ("sequences of ppf", {"ppf": 5}),
                           ("qkv: is float32", {"x": tensors.full((24, 384), 1, "float32")}),
                           ("q_weight: shape is", {"weights": (ones[1], ones[1])}),
                           ("k_out: is bfloat16 of shape", {"k_out": qkv})):
        with pytest.raises(ValueError, match=words):
            call(**options)
    with pytest.raises(NotImplementedError, match="factor=2.0"):
        call(factor=2.0)


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


@pytest.mark.parametrize("block, scale_format", [(16, None), (16, "e4m3"), (32, None)])
@pytest.mark.parametrize("shape", [(5, 96), (2, 3, 64)])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("divides", [False, True])
def test_rmsnorm_in_4_bits(tensors, rng, block, scale_format, shape, adds, divides):
    x, residual = (tensors.make(rng.standard_normal(shape), "bfloat16") for _ in range(2))
    weight = tensors.make(rng.standard_normal(shape[-1]), "bfloat16")
    scale = tensors.make(np.full(1, 0.25), "float32") if divides else None
    options = dict(global_scale=scale, eps=1e-5, block_size=block, scale_format=scale_format)
    total = tensors.read(x) + (tensors.read(residual) if adds else 0)
    if adds:
        q, tiles, scales = flashinfer.norm.add_rmsnorm_fp4quant(
            x, residual, weight, output_both_sf_layouts=True, **options)
        check_close(tensors.read(residual), total, "bfloat16")
    else:
        q, scales = flashinfer.norm.rmsnorm_fp4quant(x, weight, **options)
        tiles = flashinfer.norm.rmsnorm_fp4quant(x, weight, is_sf_swizzled_layout=True,
                                                 **options)[1]
    assert tuple(q.shape) == (*shape[:-1], shape[-1] // 2)
    assert tuple(scales.shape) == (*shape[:-1], shape[-1] // block)
    assert tuple(tiles.shape) == (128 * (-(-shape[-1] // block // 4)) * 4,)
    expected = rms(total, tensors.read(weight), 1e-5) / (0.25 if divides else 1)
    rows = int(np.prod(shape[:-1]))
    q, scales, tiles = (as_u8(tensors, t) for t in (q, scales, tiles))
    scales = scales.reshape((rows, -1))
    np.testing.assert_array_equal(tensors.read(flashinfer.block_scale_interleave(scales)),
                                  tensors.read(tiles))
    values = flashinfer.e2m1_and_ufp8sf_scale_to_float(
        q.reshape((rows, -1)), scales, None, block, 0 if block == 32 else 1, False)
    expected = expected.reshape(rows, -1, block)
    # The widest step of the grid is 2 where the largest of a block is 6, or with a scale that is a
    # power of two at least 3.
    largest = np.abs(expected).max(axis=-1, keepdims=True)
    error = np.abs(np.asarray(values).reshape(expected.shape) - expected)
    assert (error <= largest * (0.34 if block == 32 else 0.19) + 2.0**-10).all()
    assert error.mean() < 0.1 * largest.mean()


def as_u8(tensors, t):
    return t.view(tensors.dtype("uint8"))


def test_outputs_of_4_bits_are_given(tensors, rng):
    x = tensors.make(rng.standard_normal((3, 64)), "float16")
    weight = tensors.make(np.ones(64), "float16")
    expected = flashinfer.norm.rmsnorm_fp4quant(x, weight)
    given = tensors.full((3, 32), 255, "uint8"), tensors.full((3, 4), 255, "uint8")
    found = flashinfer.norm.rmsnorm_fp4quant(x, weight, *given)
    for a, b, c in zip(found, given, expected):
        assert a is b
        np.testing.assert_array_equal(tensors.read(a), tensors.read(as_u8(tensors, c)))
    call = flashinfer.norm.add_rmsnorm_fp4quant
    for words, wrong in (("y_fp4: is uint8 of shape", dict(y_fp4=given[1])),
                         ("block_scale: is uint8 of shape", dict(block_scale=given[0])),
                         ("scale_format: is 'e5m2'", dict(scale_format="e5m2")),
                         ("sf_vec_size is 48", dict(block_size=48)),
                         ("blocks of 16 with ue8m0", dict(scale_format="ue8m0")),
                         ("block_scale_unswizzled: is of no use",
                          dict(block_scale_unswizzled=given[1]))):
        with pytest.raises((ValueError, NotImplementedError), match=words):
            call(x, x, weight, **wrong)
    with pytest.raises(ValueError, match="residual: is float16 of shape"):
        call(x, x[:2], weight)
