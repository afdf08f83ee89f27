# SPDX-License-Identifier: Apache-2.0
"""Queries and keys of video transformers: normed over all heads, rotated by places in three
dimensions."""
from __future__ import annotations

import functools

from ._binding import lib
from ._pending import not_yet
from ._tensors import Tensor, as_dtype, dense, dtype_name, empty

_NAME = "fused_qk_rmsnorm_rope"


@functools.lru_cache(maxsize=8)
def _angles(patches, channels, base):
    """Cosines, then sines, of the pairs of a head at each place, as NumPy ``[seq_len, head_dim]``
    float32: frames, then rows, then columns."""
    import numpy

    places = numpy.indices(patches).reshape(3, -1).astype(numpy.float64)
    parts = [numpy.outer(place, base ** (-2.0 * numpy.arange(count // 2) / max(count, 1)))
             for place, count in zip(places, channels)]
    angles = numpy.concatenate(parts, axis=1)
    return numpy.concatenate([numpy.cos(angles), numpy.sin(angles)], axis=1).astype(numpy.float32)


def _check(qkv, patches, channels, heads, head_dim):
    if dtype_name(qkv.dtype) != "bfloat16":
        raise ValueError(f"qkv: is {dtype_name(qkv.dtype)}, expected bfloat16")
    if head_dim not in (64, 128, 256):
        raise ValueError(f"head_dim: is {head_dim}, accepted: 64, 128, 256")
    if max(heads) > 32 or min(heads) < 1:
        raise ValueError(f"num_heads_q, num_heads_k, num_heads_v: are {heads}, accepted: 1 to 32")
    if len(qkv.shape) not in (2, 3) or qkv.shape[-1] != sum(heads) * head_dim:
        raise ValueError(f"qkv: shape is {list(qkv.shape)}, expected two or three dimensions, the "
                         f"last of {sum(heads)} heads of {head_dim}")
    if sum(channels) != head_dim or any(c < 0 or c % 2 for c in channels):
        raise ValueError("num_frame_channels, num_height_channels, num_width_channels: are "
                         f"{channels}, expected even numbers whose sum is head_dim, {head_dim}")
    seq_len = patches[0] * patches[1] * patches[2]
    if min(patches) < 1 or (qkv.shape[1] != seq_len if len(qkv.shape) == 3
                            else qkv.shape[0] % seq_len):
        raise ValueError(f"qkv: shape is {list(qkv.shape)}, expected sequences of ppf · pph · ppw, "
                         f"{patches}, tokens")


def _out(name, out, shape, like, dtype):
    if out is None:
        return empty(shape, like, dtype)
    if tuple(out.shape) != shape or dtype_name(out.dtype) != dtype:
        raise ValueError(f"{name}: is {dtype_name(out.dtype)} of shape {list(out.shape)}, expected "
                         f"{dtype} {list(shape)}")
    return out


def fused_qk_rmsnorm_rope(
        qkv: Tensor, q_weight: Tensor, k_weight: Tensor, *, ppf: int, pph: int, ppw: int,
        num_frame_channels: int, num_height_channels: int, num_width_channels: int,
        num_heads_q: int, num_heads_k: int, num_heads_v: int, head_dim: int, eps: float = 1e-6,
        base: float = 10000.0, interleave: bool = True, factor: float = 1.0, low: float = 0.0,
        high: float = 0.0, attention_factor: float = 1.0, is_qk_norm: bool = True,
        output_fp8: bool = False, output_quant_scale: float = 1.0, v_quant_scale: float = 1.0,
        q_out: Tensor | None = None, k_out: Tensor | None = None,
        v_out: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Norms and rotates queries and keys, in float32 between the two, and copies values.

    Token t of a sequence is at frame t / (pph · ppw), row t / ppw % pph and column t % ppw. Pair i
    of a head turns by base^(-2 i / num_frame_channels) times the frame; the pairs behind
    num_frame_channels / 2 by the row, likewise; the last ones by the column.

    Args:
        qkv: ``[batch_size, ppf · pph · ppw, hidden_size]`` or ``[num_tokens, hidden_size]``
            bfloat16: heads of q, of k, of v.
        q_weight, k_weight: ``[num_heads · head_dim]``: norms are over all heads of a token.
        head_dim: 64, 128 or 256; of up to 32 heads each.
        interleave: pairs are (2 i, 2 i + 1), else (i, i + head_dim / 2).
        factor, low, high, attention_factor: 1, 0, 0, 1; others raise NotImplementedError.
        is_qk_norm: False: q and k are rotated alone.
        output_fp8: results are float8_e4m3fn, multiplied by output_quant_scale (v by
            v_quant_scale) and saturated.
        q_out, k_out, v_out: ``[…, num_heads, head_dim]``; made when None.

    Returns:
        (q_out, k_out, v_out)
    """
    from .attention.arguments import like

    import numpy

    if (factor, low, high, attention_factor) != (1.0, 0.0, 0.0, 1.0):
        not_yet(f"{_NAME}: factor={factor}")
    patches, heads = (ppf, pph, ppw), (num_heads_q, num_heads_k, num_heads_v)
    channels = (num_frame_channels, num_height_channels, num_width_channels)
    _check(qkv, patches, channels, heads, head_dim)
    outs = [_out(name, out, (*qkv.shape[:-1], n, head_dim), qkv,
                 "float8_e4m3fn" if output_fp8 else "bfloat16")
            for name, out, n in (("q_out", q_out, num_heads_q), ("k_out", k_out, num_heads_k),
                                 ("v_out", v_out, num_heads_v))]
    flat = qkv.reshape((-1, qkv.shape[-1]))
    ends = numpy.cumsum(heads) * head_dim
    parts = [dense(as_dtype(flat[:, end - n * head_dim:end], "float32"))
             for n, end in zip(heads, ends)]
    if is_qk_norm:
        for name, x, weight in (("q_weight", parts[0], q_weight), ("k_weight", parts[1], k_weight)):
            if tuple(weight.shape) != (x.shape[1],):
                raise ValueError(f"{name}: shape is {list(weight.shape)}, expected [{x.shape[1]}]")
            lib.rmsnorm(x, as_dtype(weight, "float32"), x, eps)
    places = numpy.arange(flat.shape[0], dtype=numpy.int32) % (ppf * pph * ppw)
    lib.apply_rope_with_cos_sin_cache(*parts[:2], like(places, qkv), *parts[:2], head_dim,
                                      like(_angles(patches, channels, float(base)), qkv),
                                      not interleave)
    for x, out, scale in zip(parts, outs, (output_quant_scale, output_quant_scale, v_quant_scale)):
        if output_fp8:
            x = (x * scale).clip(-448, 448)
        out[...] = as_dtype(x, dtype_name(out.dtype)).reshape(tuple(out.shape))
    return tuple(outs)
