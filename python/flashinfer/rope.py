# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding (Su et al., RoFormer, 2021).

Shapes of the ``apply_rope`` and ``apply_llama31_rope`` functions:

    q        [num_tokens, num_qo_heads, head_dim]   float32, float16, bfloat16
    k        [num_tokens, num_kv_heads, head_dim]   the dtype of q
    indptr   [num_requests + 1]  int32: rows of each request, from 0 to num_tokens
    offsets  [num_requests]      int32: the position of each request's first row
    pos_ids  [num_tokens]        int32 or int64: the position of each row

The last dimension is dense; others have any strides. Pair i of a head turns by
position · rope_theta^(-2i / rotary_dim) / rope_scale; pairs are (2i, 2i + 1) with ``interleave``,
else (i, i + rotary_dim / 2). Elements from ``rotary_dim`` on (None: all are rotated) are copied.
The llama31 functions slow down low frequencies alone (Llama Team, The Llama 3 Herd of Models,
2024). Angles are right to a float at positions of many millions. ValueError names what is wrong,
before anything is written.
"""
from __future__ import annotations

from typing import Any

from ._binding import lib
from ._tensors import Tensor, as_dtype, dtype_name, dtype_named, empty, empty_like
from .jit.modules import gen_rope_module


def apply_rope_inplace(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor,
                       rotary_dim: int | None = None, interleave: bool = False,
                       rope_scale: float = 1, rope_theta: float = 1e4) -> None:
    """Rotates `q` and `k` in place; positions are offsets[r] + i of row indptr[r] + i."""
    lib.apply_rope_by_offsets(q, k, as_dtype(indptr, "int32"), as_dtype(offsets, "int32"), q, k,
                              rotary_dim or 0, interleave, rope_scale, rope_theta)


def apply_rope_pos_ids_inplace(q: Tensor, k: Tensor, pos_ids: Tensor, rotary_dim: int | None = None,
                               interleave: bool = False, rope_scale: float = 1,
                               rope_theta: float = 1e4) -> None:
    """Rotates `q` and `k` in place."""
    lib.apply_rope(q, k, pos_ids, q, k, rotary_dim or 0, interleave, rope_scale, rope_theta)


def apply_llama31_rope_inplace(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor,
                               rotary_dim: int | None = None, interleave: bool = False,
                               rope_scale: float = 8, rope_theta: float = 5e5,
                               low_freq_factor: float = 1, high_freq_factor: float = 4,
                               old_context_len: int = 8192) -> None:
    """As apply_rope_inplace(): pairs that turn less than `low_freq_factor` times within
    `old_context_len` tokens turn rope_scale times slower; up to `high_freq_factor`, a blend."""
    lib.apply_llama31_rope_by_offsets(
        q, k, as_dtype(indptr, "int32"), as_dtype(offsets, "int32"), q, k, rotary_dim or 0,
        interleave, rope_scale, rope_theta, low_freq_factor, high_freq_factor, old_context_len)


def apply_llama31_rope_pos_ids_inplace(q: Tensor, k: Tensor, pos_ids: Tensor,
                                       rotary_dim: int | None = None, interleave: bool = False,
                                       rope_scale: float = 8, rope_theta: float = 5e5,
                                       low_freq_factor: float = 1, high_freq_factor: float = 4,
                                       old_context_len: int = 8192) -> None:
    """As apply_llama31_rope_inplace() with a position for each row."""
    lib.apply_llama31_rope(q, k, pos_ids, q, k, rotary_dim or 0, interleave, rope_scale,
                           rope_theta, low_freq_factor, high_freq_factor, old_context_len)


def apply_rope(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor, rotary_dim: int | None = None,
               interleave: bool = False, rope_scale: float = 1,
               rope_theta: float = 1e4) -> tuple[Tensor, Tensor]:
    """As apply_rope_inplace() into new tensors.

    Returns:
        (rotated q, rotated k)
    """
    q_out, k_out = empty_like(q), empty_like(k)
    lib.apply_rope_by_offsets(q, k, as_dtype(indptr, "int32"), as_dtype(offsets, "int32"), q_out,
                              k_out, rotary_dim or 0, interleave, rope_scale, rope_theta)
    return q_out, k_out


def apply_rope_pos_ids(q: Tensor, k: Tensor, pos_ids: Tensor, rotary_dim: int | None = None,
                       interleave: bool = False, rope_scale: float = 1,
                       rope_theta: float = 1e4) -> tuple[Tensor, Tensor]:
    """As apply_rope_pos_ids_inplace() into new tensors.

    Returns:
        (rotated q, rotated k)
    """
    q_out, k_out = empty_like(q), empty_like(k)
    lib.apply_rope(q, k, pos_ids, q_out, k_out, rotary_dim or 0, interleave, rope_scale, rope_theta)
    return q_out, k_out


def apply_llama31_rope(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor,
                       rotary_dim: int | None = None, interleave: bool = False,
                       rope_scale: float = 8, rope_theta: float = 5e5, low_freq_factor: float = 1,
                       high_freq_factor: float = 4,
                       old_context_len: int = 8192) -> tuple[Tensor, Tensor]:
    """As apply_llama31_rope_inplace() into new tensors.

    Returns:
        (rotated q, rotated k)
    """
    q_out, k_out = empty_like(q), empty_like(k)
    lib.apply_llama31_rope_by_offsets(
        q, k, as_dtype(indptr, "int32"), as_dtype(offsets, "int32"), q_out, k_out, rotary_dim or 0,
        interleave, rope_scale, rope_theta, low_freq_factor, high_freq_factor, old_context_len)
    return q_out, k_out


def apply_llama31_rope_pos_ids(q: Tensor, k: Tensor, pos_ids: Tensor, rotary_dim: int | None = None,
                               interleave: bool = False, rope_scale: float = 8,
                               rope_theta: float = 5e5, low_freq_factor: float = 1,
                               high_freq_factor: float = 4,
                               old_context_len: int = 8192) -> tuple[Tensor, Tensor]:
    """As apply_llama31_rope_pos_ids_inplace() into new tensors.

    Returns:
        (rotated q, rotated k)
    """
    q_out, k_out = empty_like(q), empty_like(k)
    lib.apply_llama31_rope(q, k, pos_ids, q_out, k_out, rotary_dim or 0, interleave, rope_scale,
                           rope_theta, low_freq_factor, high_freq_factor, old_context_len)
    return q_out, k_out


def apply_rope_with_cos_sin_cache(positions: Tensor, query: Tensor, key: Tensor, head_size: int,
                                  cos_sin_cache: Tensor,
                                  is_neox: bool = True) -> tuple[Tensor, Tensor]:
    """Rotates by cosines and sines that were computed before.

    Args:
        positions: ``[num_tokens]``, int32 or int64.
        query: ``[num_tokens, num_qo_heads * head_size]``.
        key: ``[num_tokens, num_kv_heads * head_size]``.
        head_size: elements of a head.
        cos_sin_cache: ``[num_positions, rotary_dim]`` float32: cosines of all pairs, then sines.
        is_neox: pairs are (i, i + rotary_dim / 2), else (2i, 2i + 1).

    Returns:
        (rotated query, rotated key)

    Raises:
        ValueError: `cos_sin_cache` is not float32, or a shape is wrong.
    """
    q_out, k_out = empty_like(query), empty_like(key)
    _with_cache(positions, query, key, q_out, k_out, head_size, cos_sin_cache, is_neox)
    return q_out, k_out


def apply_rope_with_cos_sin_cache_inplace(positions: Tensor, query: Tensor, key: Tensor,
                                          head_size: int, cos_sin_cache: Tensor,
                                          is_neox: bool = True) -> None:
    """As apply_rope_with_cos_sin_cache(), in place."""
    _with_cache(positions, query, key, query, key, head_size, cos_sin_cache, is_neox)


def _with_cache(positions, query, key, q_out, k_out, head_size, cos_sin_cache, is_neox):
    if dtype_name(cos_sin_cache.dtype) != "float32":
        raise ValueError("cos_sin_cache should be float32")
    lib.apply_rope_with_cos_sin_cache(query, key, positions, q_out, k_out, head_size,
                                      cos_sin_cache, is_neox)


def _quantized(x, out, dtype):
    """`out`, or a new tensor of the shape of `x` and of `dtype`; None without `x`."""
    if x is None or out is not None:
        return out
    return empty(tuple(x.shape), x, dtype)


def _quantize_dtype(x, quantize_dtype, *outs):
    if quantize_dtype is not None:
        return quantize_dtype
    for out in outs:
        if out is not None:
            return out.dtype
    return dtype_named(x, "float8_e4m3fn")


def rope_quantize_fp8(q_rope: Tensor, k_rope: Tensor, q_nope: Tensor | None, k_nope: Tensor | None,
                      cos_sin_cache: Tensor, pos_ids: Tensor, is_neox: bool = True,
                      quantize_dtype: Any = None, quant_scale_q: float = 1.0,
                      quant_scale_kv: float = 1.0, q_rope_out: Tensor | None = None,
                      k_rope_out: Tensor | None = None, q_nope_out: Tensor | None = None,
                      k_nope_out: Tensor | None = None, enable_pdl: bool = False,
                      backend: str = "cuda") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rotates one part of every head and writes all parts as fp8: value · quant_scale, rounded to
    nearest even and saturated.

    Args:
        q_rope: ``[num_tokens, num_qo_heads, rope_dim]``; float32, float16, bfloat16.
        k_rope: ``[num_tokens, num_kv_heads, rope_dim]``, or without heads for one.
        q_nope: ``[num_tokens, num_qo_heads, nope_dim]``, or None: not rotated.
        k_nope: as `k_rope`, of a size of its own, or None.
        cos_sin_cache: ``[num_positions, rope_dim]`` float32.
        pos_ids: ``[num_tokens]``, int32 or int64.
        quantize_dtype: float8_e4m3fn (also when None and no output tells) or float8_e5m2.
        backend: "cuda"; which kernel runs is the library's choice.

    Returns:
        (q_rope_out, k_rope_out, q_nope_out, k_nope_out), made when None; None where there is no
        input.
    """
    if backend not in ("cuda", "auto"):
        raise ValueError(f"backend is {backend!r}, accepted: cuda, auto")
    dtype = _quantize_dtype(q_rope, quantize_dtype, q_rope_out, k_rope_out, q_nope_out, k_nope_out)
    q_rope_out = _quantized(q_rope, q_rope_out, dtype)
    k_rope_out = _quantized(k_rope, k_rope_out, dtype)
    q_nope_out = _quantized(q_nope, q_nope_out, dtype)
    k_nope_out = _quantized(k_nope, k_nope_out, dtype)
    lib.rope_quantize(q_rope, k_rope, _nonempty(q_nope), _nonempty(k_nope), q_rope_out, k_rope_out,
                      _nonempty(q_nope_out), _nonempty(k_nope_out), pos_ids, cos_sin_cache,
                      is_neox, quant_scale_q, quant_scale_kv)
    return q_rope_out, k_rope_out, q_nope_out, k_nope_out


def _nonempty(x):
    return None if x is not None and x.shape[-1] == 0 else x


def mla_rope_quantize_fp8(q_rope: Tensor, k_rope: Tensor, q_nope: Tensor | None,
                          k_nope: Tensor | None, cos_sin_cache: Tensor, pos_ids: Tensor,
                          is_neox: bool = True, quantize_dtype: Any = None,
                          quant_scale_q: float = 1.0, quant_scale_kv: float = 1.0,
                          q_rope_out: Tensor | None = None, k_rope_out: Tensor | None = None,
                          q_nope_out: Tensor | None = None, k_nope_out: Tensor | None = None,
                          enable_pdl: bool = False) -> Any:
    """rope_quantize_fp8() for latent attention, whose keys have one head: ``[num_tokens, dim]``."""
    return rope_quantize_fp8(q_rope, k_rope, q_nope, k_nope, cos_sin_cache, pos_ids, is_neox,
                             quantize_dtype, quant_scale_q, quant_scale_kv, q_rope_out, k_rope_out,
                             q_nope_out, k_nope_out, enable_pdl)


def rope_quantize_fp8_append_paged_kv_cache(q_rope: Tensor, k_rope: Tensor, q_nope: Tensor,
                                            k_nope: Tensor, v: Tensor, cos_sin_cache: Tensor,
                                            pos_ids: Tensor,
                                            paged_kv_cache: Tensor | tuple[Tensor, Tensor],
                                            kv_indices: Tensor, kv_indptr: Tensor,
                                            batch_indices: Tensor, positions: Tensor,
                                            is_neox: bool = True, quantize_dtype: Any = None,
                                            quant_scale_q: float = 1.0, quant_scale_kv: float = 1.0,
                                            page_size: int = 16, kv_layout: str = "NHD",
                                            q_rope_out: Tensor | None = None,
                                            q_nope_out: Tensor | None = None,
                                            enable_pdl: bool = False) -> tuple[Tensor, Tensor]:
    """rope_quantize_fp8(), with keys and values written to their pages.

    Args:
        v: ``[num_tokens, num_kv_heads, head_dim]``; None with latent attention.
        paged_kv_cache: (keys, values): a key is its rotated part and then the other; or with
            latent attention (``[num_pages, page_size, nope_dim]``, ``[…, rope_dim]``).
        kv_indices: pages of all requests, int32.
        kv_indptr: ``[num_requests + 1]`` int32: where each request's begin in `kv_indices`.
        batch_indices: ``[num_tokens]`` int32: the request of each token; negative: left out.
        positions: ``[num_tokens]`` int32: its position in the request.
        page_size: tokens in a page, which the cache's shape must bear out.

    Returns:
        (q_rope_out, q_nope_out)
    """
    from .utils import _check_kv_layout

    _check_kv_layout(kv_layout)
    dtype = _quantize_dtype(q_rope, quantize_dtype, q_rope_out, q_nope_out, paged_kv_cache[0])
    rope_dim = k_rope.shape[-1]
    nope_dim = 0 if k_nope is None else k_nope.shape[-1]
    key = empty(tuple(k_rope.shape[:-1]) + (rope_dim + nope_dim,), k_rope, dtype)
    if q_nope is None:
        q_nope = empty(tuple(q_rope.shape[:-1]) + (0,), q_rope)
    q_rope_out, _, q_nope_out, _ = rope_quantize_fp8(
        q_rope, k_rope, q_nope, k_nope, cos_sin_cache, pos_ids, is_neox, dtype, quant_scale_q,
        quant_scale_kv, q_rope_out, key[..., :rope_dim], q_nope_out,
        key[..., rope_dim:] if nope_dim else None, enable_pdl)
    full_pages = _full_pages(kv_indptr, page_size)
    if v is None:
        ckv_cache, kpe_cache = paged_kv_cache
        lib.append_paged_mla_kv_cache(key[..., rope_dim:], key[..., :rope_dim], batch_indices,
                                      positions, ckv_cache, kpe_cache, kv_indices, kv_indptr,
                                      full_pages)
    else:
        k_cache, v_cache = paged_kv_cache
        value = empty(tuple(v.shape), v, dtype)
        scale = empty((1, 1), v, "float32")
        scale[...] = 1.0 / quant_scale_kv
        rows = (v.shape[0] * v.shape[1], v.shape[2])
        lib.quantize(v.reshape(rows), value.reshape(rows), scale.reshape((1,)), False, 1.0, False)
        lib.append_paged_kv_cache(key, value, batch_indices, positions, k_cache, v_cache,
                                  kv_indices, kv_indptr, full_pages, kv_layout == "HND")
    return q_rope_out, q_nope_out


def _full_pages(kv_indptr, page_size):
    """Last pages that are full: the tables must not say less than `positions` need."""
    last_page_len = empty((kv_indptr.shape[0] - 1,), kv_indptr)
    last_page_len[...] = page_size
    return last_page_len
