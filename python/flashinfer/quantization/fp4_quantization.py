# SPDX-License-Identifier: Apache-2.0
"""Quantisation to pairs of e2m1: NVFP4 and MXFP4.

A byte holds two values, the first in its low half. NVFP4: 16 elements of a row share an e4m3 scale
of global_scale · amax / 6, and a value is q · scale / global_scale; MXFP4: 32 share a power of two,
amax / 6 rounded up. Scales lie as SfLayout says and are kept as uint8.
"""
from .._binding import lib
from .._pending import not_yet, pending
from .._tensors import as_bytes, as_dtype, dtype_name, empty, on_host, scalar_or_tensor
from ..tllm_enums import SfLayout
from ..utils import _check_kv_layout, ceil_div, round_up


def _check_backend(backend):
    if backend not in ("cuda", "auto"):
        raise ValueError(f"backend is {backend!r}, accepted: cuda, auto")


def _format(name, sf_vec_size, is_ue8m0):
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


def fp4_quantize(input, global_scale=None, sf_vec_size=16, sf_use_ue8m0=False,
                 is_sf_swizzled_layout=True, is_sf_8x4_layout=False,
                 is_global_scale_inversed=False, enable_pdl=None, backend="cuda"):
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
    kind = _format("fp4_quantize", sf_vec_size, sf_use_ue8m0)
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
    stride = x.strides[-1] // x.itemsize if hasattr(x, "strides") else x.stride(-1)
    return stride == 1


def nvfp4_quantize(a, a_global_sf, sfLayout=SfLayout.layout_128x4, do_shuffle=False,
                   sf_vec_size=16, enable_pdl=None, backend="cuda", *,
                   per_token_activation=False, expanded_idx_to_permuted_idx=None):
    """NVFP4 of a matrix.

    Args:
        a: ``[num_rows, hidden_size]``; float32, float16, bfloat16.
        a_global_sf: one float32: (448 · 6) / the largest |a|.
        sfLayout: where the scales lie.
        do_shuffle: rows are put in the order that some kernels of SM100 read; not implemented.
        per_token_activation: a global scale for each row; not implemented.

    Returns:
        (``[num_rows, hidden_size / 2]`` uint8, ``[rows, blocks]`` uint8 scales)
    """
    if do_shuffle:
        not_yet("nvfp4_quantize: do_shuffle=True")
    if per_token_activation:
        not_yet("nvfp4_quantize: per_token_activation=True")
    if expanded_idx_to_permuted_idx is not None:
        raise ValueError("expanded_idx_to_permuted_idx is only supported with "
                         "per_token_activation=True")
    layout = SfLayout(sfLayout)
    return fp4_quantize(a, a_global_sf, sf_vec_size, False, layout != SfLayout.layout_linear,
                        layout == SfLayout.layout_8x4, False, enable_pdl, backend)


def nvfp4_batched_quantize(a, a_global_sf, sf_vec_size=16):
    """NVFP4 of a batch of matrices, each with scales in tiles of its own.

    Args:
        a: ``[batch_size, num_rows, hidden_size]``.
        a_global_sf: one float32 for all.

    Returns:
        (``[batch_size, num_rows, hidden_size / 2]`` uint8, ``[batch_size, bytes]`` uint8)
    """
    batch_size, num_rows, size = a.shape
    kind = _format("nvfp4_batched_quantize", sf_vec_size, False)
    layout = int(SfLayout.layout_128x4)
    q = empty((batch_size, num_rows, size // 2), a, "uint8")
    num_bytes = lib.block_scale_bytes(layout, num_rows, ceil_div(size, sf_vec_size))
    scales = empty((batch_size, num_bytes), a, "uint8")
    for i in range(batch_size):
        lib.quantize_blocks(a[i], q[i], scales[i], kind, layout, *scalar_or_tensor(a_global_sf))
    return q, scales


def mxfp4_quantize(a, backend="cuda", enable_pdl=None, sfLayout=SfLayout.layout_128x4):
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


def mxfp4_dequantize(a_fp4, a_sf, sfLayout=SfLayout.layout_128x4):
    """The reverse of mxfp4_quantize(), in host memory.

    Returns:
        ``[num_rows, hidden_size]`` float32 in host memory.
    """
    return _dequantize(on_host(a_fp4), on_host(a_sf), "mxfp4", SfLayout(sfLayout), "float32")


def mxfp4_dequantize_host(weight, scale, group_size=32):
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


def e2m1_and_ufp8sf_scale_to_float(e2m1_tensor, ufp8_scale_tensor, global_scale_tensor=None,
                                   sf_vec_size=16, ufp8_type=1, is_sf_swizzled_layout=True,
                                   is_sf_8x4_layout=False):
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
    kind = _format("e2m1_and_ufp8sf_scale_to_float", sf_vec_size, ufp8_type == 0)
    layout = _swizzled(is_sf_swizzled_layout, is_sf_8x4_layout)
    out = _dequantize(on_host(e2m1_tensor), on_host(ufp8_scale_tensor), kind, layout, "float32")
    if global_scale_tensor is not None:
        out *= on_host(global_scale_tensor)
    return out


def block_scale_interleave(unswizzled_sf):
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


def nvfp4_kv_quantize(input, global_scale):
    """NVFP4 of rows of a KV cache, with row-major scales.

    Args:
        input: ``[num_rows, head_dim]``; float16, bfloat16, float32.
        global_scale: one float32: what nvfp4_kv_dequantize() multiplies by.

    Returns:
        (``[num_rows, head_dim / 2]`` uint8, ``[num_rows, head_dim / 16]`` uint8)
    """
    return _quantize(input, "nvfp4", 16, SfLayout.layout_linear, 1.0 / global_scale)


def nvfp4_kv_dequantize(fp4_data, block_scales, global_scale, output_dtype="bfloat16"):
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


def nvfp4_kv_dequantize_paged(paged_kv_cache, kv_cache_sf, block_tables, seq_lens, k_scale,
                              v_scale, output_k, output_v, kv_layout="NHD"):
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


def get_fp4_quantization_module(backend):
    """The library's functions, under the name of the original's module."""
    return lib


nvfp4_quantize_paged_kv_cache = pending("nvfp4_quantize_paged_kv_cache")
scaled_fp4_grouped_quantize = pending("scaled_fp4_grouped_quantize")
shuffle_matrix_a = pending("shuffle_matrix_a")
shuffle_matrix_sf_a = pending("shuffle_matrix_sf_a")
silu_and_mul_nvfp4_quantize = pending("silu_and_mul_nvfp4_quantize")
