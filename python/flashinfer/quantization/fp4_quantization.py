# SPDX-License-Identifier: Apache-2.0
"""Quantisation to pairs of e2m1: NVFP4 and MXFP4.

A byte holds two values, the first in its low half. NVFP4: 16 elements of a row share an e4m3 scale
of global_scale · amax / 6, and a value is q · scale / global_scale; MXFP4: 32 share a power of two,
amax / 6 rounded up. Scales lie as SfLayout says and are kept as uint8.
"""
from __future__ import annotations

from typing import Any

from .._binding import lib
from .._pending import not_yet
from ..row_shuffle import shuffle_matrix_a, shuffle_matrix_sf_a
from .._tensors import (
    Tensor,
    as_bytes,
    as_dtype,
    dense,
    dtype_name,
    dtype_named,
    empty,
    on_host,
    scalar_or_tensor,
    stride_of,
)
from ..tllm_enums import SfLayout
from ..utils import _check_kv_layout, ceil_div, round_up
from .masked_groups import scaled_fp4_grouped_quantize


def _check_backend(backend):
    if backend not in ("cuda", "auto"):
        raise ValueError(f"backend is {backend!r}, accepted: cuda, auto")


def block_format(name: str, sf_vec_size: int, is_ue8m0: bool) -> str:
    """The library's name of a format of 4 bits."""
    if (sf_vec_size, is_ue8m0) == (16, False):
        return "nvfp4"
    if (sf_vec_size, is_ue8m0) == (32, True):
        return "mxfp4"
    if sf_vec_size not in (16, 32):
        raise NotImplementedError(f"{name}: sf_vec_size is {sf_vec_size}, accepted: 16, 32")
    scales = "ue8m0" if is_ue8m0 else "e4m3"
    raise NotImplementedError(f"{name}: blocks of {sf_vec_size} with {scales} scales are not "
                              "implemented, 16 with e4m3 and 32 with ue8m0 are")


def _swizzled(is_swizzled, is_8x4):
    if not is_swizzled:
        return SfLayout.layout_linear
    return SfLayout.layout_8x4 if is_8x4 else SfLayout.layout_128x4


def _num_rows(x):
    rows = 1
    for size in tuple(x.shape)[:-1]:
        rows *= size
    return rows


def _quantize(x, kind, block, layout, global_scale):
    """(pairs, scales as [rows, columns] with the padding of the layout)."""
    size = x.shape[-1]
    if size % block != 0:
        raise ValueError(f"input: last dimension is {size}, expected a multiple of {block}")
    q = empty(tuple(x.shape)[:-1] + (size // 2,), x, "uint8")
    num_blocks = size // block
    scales = empty((lib.block_scale_bytes(int(layout), _num_rows(x), num_blocks),), x, "uint8")
    lib.quantize_blocks(x, q, scales, kind, int(layout), *scalar_or_tensor(global_scale))
    columns = num_blocks if layout == SfLayout.layout_linear else round_up(num_blocks, 4)
    return q, scales.reshape((-1, columns))


def fp4_quantize(input: Tensor, global_scale: Any = None, sf_vec_size: int = 16,
                 sf_use_ue8m0: bool = False, is_sf_swizzled_layout: bool = True,
                 is_sf_8x4_layout: bool = False, is_global_scale_inversed: bool = False,
                 enable_pdl: bool | None = None, backend: str = "cuda") -> tuple[Tensor, Tensor]:
    """Quantises blocks of a row that share a narrow scale.

    Args:
        input: ``[…, hidden_size]``; float32, float16, bfloat16; hidden_size a multiple of
            `sf_vec_size`. A column-major matrix gives column-major results.
        global_scale: one float32 that multiplies `input`: (448 · 6) / its largest |x|; 1 when None.
        sf_vec_size: elements that share a scale: 16, or 32 with `sf_use_ue8m0`.
        sf_use_ue8m0: scales are powers of two (MXFP4), else e4m3 (NVFP4).
        is_sf_swizzled_layout: scales in tiles of 128 rows and 4 blocks, else row-major.
        is_sf_8x4_layout: in tiles of 8 rows.
        is_global_scale_inversed: `global_scale` divides instead.
        backend: "cuda" or "auto"; which kernel runs is the library's choice.

    Returns:
        (``[…, hidden_size / 2]`` uint8, ``[rows, blocks]`` uint8 scales, padded in tiles)
    """
    _check_backend(backend)
    kind = block_format("fp4_quantize", sf_vec_size, sf_use_ue8m0)
    if global_scale is not None and is_global_scale_inversed:
        global_scale = 1.0 / global_scale
    if global_scale is not None and hasattr(global_scale, "dtype"):
        global_scale = as_dtype(global_scale, "float32")
    is_column_major = (input.ndim == 2 and input.shape[0] > 1 and input.shape[1] > 1
                       and not _has_dense_rows(input))
    if is_column_major:
        input = input.T
    if kind == "mxfp4" and global_scale is not None:
        input, global_scale = as_dtype(input, "float32") * global_scale, None
    layout = _swizzled(is_sf_swizzled_layout, is_sf_8x4_layout)
    q, scales = _quantize(input, kind, sf_vec_size, layout, global_scale)
    return (q.T, scales.T) if is_column_major else (q, scales)


def _has_dense_rows(x):
    return stride_of(x, -1) == 1


def nvfp4_quantize(a: Tensor, a_global_sf: Any, sfLayout: Any = SfLayout.layout_128x4,
                   do_shuffle: bool = False, sf_vec_size: int = 16, enable_pdl: bool | None = None,
                   backend: str = "cuda", *, per_token_activation: bool = False,
                   expanded_idx_to_permuted_idx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """NVFP4 of a matrix.

    Args:
        a: ``[num_rows, hidden_size]``; float32, float16, bfloat16.
        a_global_sf: one float32: (448 · 6) / the largest |a|.
        sfLayout: where the scales lie.
        do_shuffle: rows and scales are put in the order of shuffle_matrix_a(·, 128), with
            layout_128x4; num_rows is then a multiple of 128 and hidden_size of 64.
        per_token_activation: a global scale for each row; not implemented.

    Returns:
        (``[num_rows, hidden_size / 2]`` uint8, ``[rows, blocks]`` uint8 scales)
    """
    if per_token_activation:
        not_yet("nvfp4_quantize: per_token_activation=True")
    if expanded_idx_to_permuted_idx is not None:
        raise ValueError("expanded_idx_to_permuted_idx is only supported with "
                         "per_token_activation=True")
    layout = SfLayout(sfLayout)
    if do_shuffle:
        if layout != SfLayout.layout_128x4:
            raise ValueError(f"sfLayout: is {layout.name}, accepted with do_shuffle=True: "
                             "layout_128x4")
        q, scales = fp4_quantize(a, a_global_sf, sf_vec_size, is_sf_swizzled_layout=False,
                                 backend=backend)
        return shuffle_matrix_a(q, 128), shuffle_matrix_sf_a(scales, 128).reshape(scales.shape)
    return fp4_quantize(a, a_global_sf, sf_vec_size, False, layout != SfLayout.layout_linear,
                        layout == SfLayout.layout_8x4, False, enable_pdl, backend)


def nvfp4_batched_quantize(a: Tensor, a_global_sf: Any,
                           sf_vec_size: int = 16) -> tuple[Tensor, Tensor]:
    """NVFP4 of a batch of matrices, each with scales in tiles of its own.

    Args:
        a: ``[batch_size, num_rows, hidden_size]``.
        a_global_sf: one float32 for all.

    Returns:
        (``[batch_size, num_rows, hidden_size / 2]`` uint8, ``[batch_size, bytes]`` uint8)
    """
    batch_size, num_rows, size = a.shape
    kind = block_format("nvfp4_batched_quantize", sf_vec_size, False)
    layout = int(SfLayout.layout_128x4)
    q = empty((batch_size, num_rows, size // 2), a, "uint8")
    num_bytes = lib.block_scale_bytes(layout, num_rows, ceil_div(size, sf_vec_size))
    scales = empty((batch_size, num_bytes), a, "uint8")
    for i in range(batch_size):
        lib.quantize_blocks(a[i], q[i], scales[i], kind, layout, *scalar_or_tensor(a_global_sf))
    return q, scales


def mxfp4_quantize(a: Tensor, backend: str = "cuda", enable_pdl: bool | None = None,
                   sfLayout: Any = SfLayout.layout_128x4) -> tuple[Tensor, Tensor]:
    """MXFP4 of a matrix.

    Args:
        a: ``[num_rows, hidden_size]``; float32, float16, bfloat16; hidden_size a multiple of 32.
        sfLayout: where the scales lie.

    Returns:
        (``[num_rows, hidden_size / 2]`` uint8, ``[rows, blocks]`` uint8: exponents of two + 127)
    """
    _check_backend(backend)
    return _quantize(a, "mxfp4", 32, SfLayout(sfLayout), None)


def _dequantize(q, scales, kind, layout, dtype):
    out = empty(tuple(q.shape)[:-1] + (q.shape[-1] * 2,), q, dtype)
    lib.dequantize_blocks(q, scales.reshape((-1,)), out, kind, int(layout), 1.0, None)
    return out


def mxfp4_dequantize(a_fp4: Tensor, a_sf: Tensor, sfLayout: Any = SfLayout.layout_128x4) -> Tensor:
    """The reverse of mxfp4_quantize(), in host memory.

    Returns:
        ``[num_rows, hidden_size]`` float32 in host memory.
    """
    return _dequantize(on_host(a_fp4), on_host(a_sf), "mxfp4", SfLayout(sfLayout), "float32")


def mxfp4_dequantize_host(weight: Tensor, scale: Tensor, group_size: int = 32) -> Tensor:
    """The values of MXFP4 with row-major scales.

    Args:
        weight: ``[num_rows, hidden_size / 2]`` uint8 in host memory.
        scale: ``[num_rows, hidden_size / 32]`` uint8.
        group_size: 32.

    Returns:
        ``[num_rows, hidden_size]`` float32.
    """
    if group_size != 32:
        raise NotImplementedError(f"mxfp4_dequantize_host: group_size is {group_size}, "
                                  "implemented: 32")
    return _dequantize(weight, scale, "mxfp4", SfLayout.layout_linear, "float32")


def e2m1_and_ufp8sf_scale_to_float(e2m1_tensor: Tensor, ufp8_scale_tensor: Tensor,
                                   global_scale_tensor: Tensor | None = None, sf_vec_size: int = 16,
                                   ufp8_type: int = 1, is_sf_swizzled_layout: bool = True,
                                   is_sf_8x4_layout: bool = False) -> Tensor:
    """q · scale · global_scale, in host memory.

    Args:
        e2m1_tensor: ``[num_rows, hidden_size / 2]`` uint8.
        ufp8_scale_tensor: uint8, as fp4_quantize() returns it.
        global_scale_tensor: one float32 that multiplies; 1 when None.
        sf_vec_size: elements that share a scale: 16, or 32 with `ufp8_type` 0.
        ufp8_type: 1 for e4m3 scales, 0 for powers of two.

    Returns:
        ``[num_rows, hidden_size]`` float32 in host memory.
    """
    kind = block_format("e2m1_and_ufp8sf_scale_to_float", sf_vec_size, ufp8_type == 0)
    layout = _swizzled(is_sf_swizzled_layout, is_sf_8x4_layout)
    out = _dequantize(on_host(e2m1_tensor), on_host(ufp8_scale_tensor), kind, layout, "float32")
    if global_scale_tensor is not None:
        out *= on_host(global_scale_tensor)
    return out


def block_scale_interleave(unswizzled_sf: Tensor) -> Tensor:
    """Row-major scales in tiles of 128 rows and 4 blocks; padding is 0.

    Args:
        unswizzled_sf: ``[num_rows, num_blocks]`` or ``[num_experts, num_rows, num_blocks]`` uint8
            or float8_e4m3fn.

    Returns:
        All tiles in one dimension, of the dtype of `unswizzled_sf`.
    """
    if unswizzled_sf.ndim not in (2, 3):
        raise ValueError(f"unswizzled_sf: shape is {list(unswizzled_sf.shape)}, "
                         "expected 2 or 3 dimensions")
    matrices = unswizzled_sf if unswizzled_sf.ndim == 3 else unswizzled_sf[None]
    layout = int(SfLayout.layout_128x4)
    num_bytes = lib.block_scale_bytes(layout, matrices.shape[1], matrices.shape[2])
    out = empty((matrices.shape[0], num_bytes), unswizzled_sf)
    for i in range(matrices.shape[0]):
        lib.swizzle_block_scales(matrices[i], out[i], layout)
    return out.reshape((-1,))


nvfp4_block_scale_interleave = block_scale_interleave


def nvfp4_kv_quantize(input: Tensor, global_scale: Any) -> tuple[Tensor, Tensor]:
    """NVFP4 of rows of a KV cache, with row-major scales.

    Args:
        input: ``[num_rows, head_dim]``; float16, bfloat16, float32.
        global_scale: one float32: what nvfp4_kv_dequantize() multiplies by.

    Returns:
        (``[num_rows, head_dim / 2]`` uint8, ``[num_rows, head_dim / 16]`` uint8)
    """
    return _quantize(input, "nvfp4", 16, SfLayout.layout_linear, 1.0 / global_scale)


def nvfp4_kv_dequantize(fp4_data: Tensor, block_scales: Tensor, global_scale: Any,
                        output_dtype: Any = "bfloat16") -> Tensor:
    """q · scale · global_scale of rows of a KV cache.

    Args:
        fp4_data: ``[num_rows, head_dim / 2]`` uint8.
        block_scales: ``[num_rows, head_dim / 16]`` uint8 or float8_e4m3fn, row-major.
        global_scale: one float32.
        output_dtype: bfloat16 or float16.

    Returns:
        ``[num_rows, head_dim]`` of `output_dtype`.
    """
    values = _dequantize(fp4_data, block_scales, "nvfp4", SfLayout.layout_linear, "float32")
    return as_dtype(values * global_scale, dtype_name(output_dtype))


def nvfp4_kv_dequantize_paged(paged_kv_cache: Tensor | tuple[Tensor, Tensor],
                              kv_cache_sf: tuple[Tensor, Tensor], block_tables: Tensor,
                              seq_lens: Tensor, k_scale: float | Tensor, v_scale: float | Tensor,
                              output_k: Tensor, output_v: Tensor, kv_layout: str = "NHD") -> None:
    """The keys and values of a paged cache of NVFP4, in the order of their tokens.

    Args:
        paged_kv_cache: a pair, keys and values: ``[num_pages, page_size, num_kv_heads,
            head_dim / 2]`` uint8 (HND: heads before tokens).
        kv_cache_sf: likewise, of ``head_dim / 16`` float8_e4m3fn or uint8.
        block_tables: ``[num_requests, max_pages]`` int32 or int64: pages of each request.
        seq_lens: ``[num_requests]`` int32: tokens of each request.
        k_scale: one float32; `v_scale` likewise.
        output_k: ``[num_requests, max_tokens, num_kv_heads, head_dim]``; rows of tokens beyond
            `seq_lens` are left as they are.
        output_v: likewise.
    """
    _check_kv_layout(kv_layout)
    lengths = [int(length) for length in on_host(seq_lens)]
    for part, scales, scale, output in zip(paged_kv_cache, kv_cache_sf, (k_scale, v_scale),
                                           (output_k, output_v)):
        if kv_layout == "HND":
            part, scales = part.swapaxes(1, 2), scales.swapaxes(1, 2)
        for request, length in enumerate(lengths):
            pages = block_tables[request, :ceil_div(length, part.shape[1])]
            values = nvfp4_kv_dequantize(_tokens(part, pages, length),
                                         _tokens(as_bytes(scales), pages, length), scale,
                                         output.dtype)
            output[request, :length] = values.reshape((length,) + tuple(output.shape[2:]))


def _tokens(cache, pages, length):
    """The first `length` tokens of `pages`, a row for each head."""
    tokens = cache[pages]
    heads, size = tokens.shape[2], tokens.shape[3]
    return tokens.reshape((-1, heads, size))[:length].reshape((length * heads, size))


def get_fp4_quantization_module(backend: str) -> Any:
    """The library's functions, under the name of the original's module."""
    return lib


def _global_scale_of(cache):
    """448 / the largest |x|, as one float32 beside `cache`."""
    scale = empty((1,), cache, "float32")
    scale[...] = 448.0 / max(float(abs(as_dtype(cache, "float32")).max()), 1e-12)
    return scale


def nvfp4_quantize_paged_kv_cache(k_cache: Tensor, v_cache: Tensor, kv_layout: str = "HND",
                                  k_global_sf: Any = None, v_global_sf: Any = None) -> Any:
    """NVFP4 of a paged cache, with the scales of values interleaved as kernels of SM100 read them.

    Args:
        k_cache: ``[num_pages, num_kv_heads, page_size, head_dim]`` (NHD: the middle two the other
            way round), float16 or bfloat16; page_size a multiple of 4, head_dim of 64.
        v_cache: likewise.
        k_global_sf, v_global_sf: one float32 each that multiplies keys and values: 448 / the
            largest |x| when None, for which a device is waited for.

    Returns:
        ((k, v), (k scales, v scales), k_global_scale, v_global_scale): as the caches with
        head_dim / 2 uint8; scales with head_dim / 16 float8_e4m3fn, those of values with four
        tokens next to each other: token t and block s of a page at ``t // 4 · 4 · blocks + s · 4 +
        t % 4``; numbers, 1 / the global scales
    """
    _check_kv_layout(kv_layout)
    tokens = 1 if kv_layout == "NHD" else 2
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if len(cache.shape) != 4 or cache.shape[tokens] % 4 or cache.shape[3] % 64:
            raise ValueError(f"{name}: shape is {list(cache.shape)}, expected four dimensions, "
                             "page_size a multiple of 4 and head_dim of 64")
    values, scales, factors = [], [], []
    for cache, global_sf in ((k_cache, k_global_sf), (v_cache, v_global_sf)):
        global_sf = _global_scale_of(cache) if global_sf is None else global_sf
        q, sf = fp4_quantize(cache.reshape((-1, cache.shape[3])), global_sf,
                             is_sf_swizzled_layout=False)
        values.append(q.reshape(tuple(cache.shape[:3]) + (-1,)))
        scales.append(sf.reshape(tuple(cache.shape[:3]) + (-1,)))
        factors.append(1.0 / float(global_sf.item() if hasattr(global_sf, "item") else global_sf))
    scales[1] = _interleaved_tokens(scales[1], tokens)
    dtype = dtype_named(k_cache, "float8_e4m3fn")
    return tuple(values), tuple(s.view(dtype) for s in scales), *factors


def _interleaved_tokens(scales, tokens):
    """Scales of a page ``[…, page_size, …, blocks]`` with four tokens next to each other: numbers
    in the order (t // 4, s, t % 4), read as ``[page_size, blocks]`` again."""
    by_head = scales.swapaxes(1, 2) if tokens == 1 else scales
    pages, heads, page_size, blocks = by_head.shape
    moved = by_head.reshape((pages, heads, page_size // 4, 4, blocks)).swapaxes(3, 4)
    moved = moved.reshape((pages, heads, page_size, blocks))
    return dense(moved.swapaxes(1, 2) if tokens == 1 else moved)


def silu_and_mul_nvfp4_quantize(input: Tensor, global_scale: Any, sf_vec_size: int = 16,
                                is_sf_swizzled_layout: bool = True, is_sf_8x4_layout: bool = False,
                                enable_pdl: bool | None = None) -> tuple[Tensor, Tensor]:
    """fp4_quantize() of silu_and_mul(input), which is rounded to the dtype of `input`.

    Args:
        input: ``[num_rows, 2 · hidden_size]``.

    Returns:
        (``[num_rows, hidden_size / 2]`` uint8, ``[rows, blocks]`` uint8 scales)
    """
    from ..activation import silu_and_mul

    return fp4_quantize(silu_and_mul(input), global_scale, sf_vec_size, False,
                        is_sf_swizzled_layout, is_sf_8x4_layout)
