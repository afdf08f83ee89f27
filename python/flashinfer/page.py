# SPDX-License-Identifier: Apache-2.0
"""Writing to a paged KV cache, and the integers that go with it.

Token t of request b is in page ``kv_indices[kv_indptr[b] + t // page_size]``, slot
``t % page_size``. Tables are int32; those of a request count the tokens that are appended.
"""
from __future__ import annotations

from typing import Any

from ._binding import lib
from ._tensors import Tensor, as_bytes, as_dtype, dense, empty, is_on_cuda, on_host
from .jit.modules import gen_page_module
from .quantization.fp4_quantization import nvfp4_kv_quantize
from .utils import _check_kv_layout, _unpack_paged_kv_cache


def get_page_module() -> Any:
    """The library's functions, under the name of the original's module."""
    return lib


def get_seq_lens(kv_indptr: Tensor, kv_last_page_len: Tensor, page_size: int) -> Tensor:
    """Tokens of each request: (pages - 1) · page_size + last_page_len, or 0 without a page.

    Args:
        kv_indptr: ``[num_requests + 1]``, int32.
        kv_last_page_len: ``[num_requests]``, int32, each in 1..page_size where there is a page.

    Returns:
        ``[num_requests]``, int32.
    """
    if is_on_cuda(kv_indptr):
        num_pages = kv_indptr[1:] - kv_indptr[:-1]
        lengths = (num_pages - 1).clip(0) * page_size + kv_last_page_len
        return as_dtype(lengths * (num_pages > 0), "int32")
    seq_lens = empty(tuple(kv_last_page_len.shape), kv_last_page_len, "int32")
    lib.get_seq_lens(as_dtype(kv_indptr, "int32"), as_dtype(kv_last_page_len, "int32"), page_size,
                     seq_lens)
    return seq_lens


def get_batch_indices_positions(append_indptr: Tensor, seq_lens: Tensor, nnz: int,
                                batch_indices: Tensor | None = None,
                                positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Request and position of each of a batch's newest tokens, as the functions below take them.

    Args:
        append_indptr: ``[num_requests + 1]``, int32: rows of each request's new tokens.
        seq_lens: ``[num_requests]``, int32: tokens of each request, the new ones included.
        nnz: rows of the results; those from ``append_indptr[-1]`` on become -1.
        batch_indices: ``[nnz]``, int32; made when None.
        positions: likewise.

    Returns:
        (batch_indices, positions)
    """
    if batch_indices is None:
        batch_indices = empty((nnz,), append_indptr, "int32")
    if positions is None:
        positions = empty((nnz,), append_indptr, "int32")
    if is_on_cuda(append_indptr):
        _positions_on_device(append_indptr, seq_lens, batch_indices, positions)
    else:
        lib.get_batch_indices_positions(as_dtype(append_indptr, "int32"),
                                        as_dtype(seq_lens, "int32"), batch_indices, positions)
    return batch_indices, positions


def _positions_on_device(append_indptr, seq_lens, batch_indices, positions):
    """With torch alone: waits for nothing, so that a CUDA graph may hold it."""
    import torch

    rows = torch.arange(batch_indices.shape[0], device=append_indptr.device)
    requests = torch.searchsorted(append_indptr[1:].to(rows.dtype), rows, right=True)
    is_padding = rows >= append_indptr[-1]
    inside = requests.clamp(max=max(seq_lens.shape[0] - 1, 0))
    values = rows + seq_lens[inside] - append_indptr[1:][inside] if seq_lens.shape[0] else rows
    batch_indices.copy_(torch.where(is_padding, -1, requests))
    positions.copy_(torch.where(is_padding, -1, values))


def append_paged_kv_cache(append_key: Tensor, append_value: Tensor, batch_indices: Tensor,
                          positions: Tensor, paged_kv_cache: Tensor | tuple[Tensor, Tensor],
                          kv_indices: Tensor, kv_indptr: Tensor, kv_last_page_len: Tensor,
                          kv_layout: str = "NHD") -> None:
    """Writes new tokens' keys and values into their pages.

    Args:
        append_key: ``[num_tokens, num_kv_heads, head_dim]``.
        append_value: likewise.
        batch_indices: ``[num_tokens]``: the request of each token; one with a negative is left out.
        positions: ``[num_tokens]``: its position in the request.
        paged_kv_cache: ``[num_pages, 2, page_size, num_kv_heads, head_dim]`` with keys and values
            (HND: heads before tokens), or a pair without the second dimension. Of the dtype of
            `append_key`, or of one that it is rounded to.
        kv_indices: pages of all requests.
        kv_indptr: ``[num_requests + 1]``: where each request's begin in `kv_indices`.
        kv_last_page_len: ``[num_requests]``: tokens in each last page, the new ones included.

    Raises:
        ValueError: a shape or dtype is wrong; on the CPU also a token outside its request's pages.
    """
    _check_kv_layout(kv_layout)
    k_cache, v_cache = _unpack_paged_kv_cache(paged_kv_cache, kv_layout)
    lib.append_paged_kv_cache(
        append_key, append_value, as_dtype(batch_indices, "int32"), as_dtype(positions, "int32"),
        k_cache, v_cache, as_dtype(kv_indices, "int32"), as_dtype(kv_indptr, "int32"),
        as_dtype(kv_last_page_len, "int32"), kv_layout == "HND")


def append_paged_mla_kv_cache(append_ckv: Tensor, append_kpe: Tensor, batch_indices: Tensor,
                              positions: Tensor, ckv_cache: Tensor, kpe_cache: Tensor,
                              kv_indices: Tensor, kv_indptr: Tensor,
                              kv_last_page_len: Tensor) -> None:
    """append_paged_kv_cache() for latent attention.

    Args:
        append_ckv: ``[num_tokens, head_dim_ckv]``: compressed keys, which are the values too.
        append_kpe: ``[num_tokens, head_dim_kpe]``: the part of keys with positions.
        ckv_cache: ``[num_pages, page_size, head_dim_ckv]``.
        kpe_cache: ``[num_pages, page_size, head_dim_kpe]``.
    """
    lib.append_paged_mla_kv_cache(
        append_ckv, append_kpe, as_dtype(batch_indices, "int32"), as_dtype(positions, "int32"),
        ckv_cache, kpe_cache, as_dtype(kv_indices, "int32"), as_dtype(kv_indptr, "int32"),
        as_dtype(kv_last_page_len, "int32"))


def _decode_scale(name, scale):
    """A number, or a tensor of one, that the stored values are multiplied by."""
    value = float(on_host(scale).reshape((-1,))[0]) if hasattr(scale, "dtype") else float(scale)
    if not (value > 0 and value < float("inf")):
        raise ValueError(f"{name}: is {value}, expected a positive finite global decode scale")
    return value


def _append_nvfp4(rows, scales, tables, caches, scale_caches, is_hnd):
    """Quantises keys and values, and writes both parts of them to their pages as bytes."""
    parts = [nvfp4_kv_quantize(dense(x), scale) for x, scale in zip(rows, scales)]
    for place, written in enumerate((caches, scale_caches)):
        shape = tuple(rows[0].shape[:2])
        keys, values = (part[place].reshape(shape + (-1,)) for part in parts)
        batch_indices, positions, indices, indptr, last_page_len = tables
        lib.append_paged_kv_cache(keys, values, batch_indices, positions, as_bytes(written[0]),
                                  as_bytes(written[1]), indices, indptr, last_page_len, is_hnd)


def nvfp4_quantize_append_paged_kv_cache(append_key: Tensor, append_value: Tensor,
                                         batch_indices: Tensor, positions: Tensor,
                                         paged_kv_cache: Tensor | tuple[Tensor, Tensor],
                                         kv_cache_sf: tuple[Tensor, Tensor], kv_indices: Tensor,
                                         kv_indptr: Tensor, kv_last_page_len: Tensor,
                                         k_scale: float | Tensor, v_scale: float | Tensor,
                                         kv_layout: str = "NHD") -> None:
    """append_paged_kv_cache() to a cache of NVFP4.

    Args:
        append_key: ``[num_tokens, num_kv_heads, head_dim]``; float16, bfloat16, float32.
        append_value: likewise.
        paged_kv_cache: as in append_paged_kv_cache(), of ``head_dim / 2`` uint8.
        kv_cache_sf: likewise, of ``head_dim / 16`` float8_e4m3fn: row-major block scales.
        k_scale: a number, or a tensor of one: keys are q · block scale · k_scale.
        v_scale: likewise.

    Raises:
        ValueError: a scale is not positive and finite; a token is outside its request's pages.
    """
    _check_kv_layout(kv_layout)
    scales = _decode_scale("k_scale", k_scale), _decode_scale("v_scale", v_scale)
    tables = [as_dtype(x, "int32") for x in (batch_indices, positions, kv_indices, kv_indptr,
                                             kv_last_page_len)]
    _append_nvfp4((append_key, append_value), scales, tables,
                  _unpack_paged_kv_cache(paged_kv_cache, kv_layout),
                  _unpack_paged_kv_cache(kv_cache_sf, kv_layout), kv_layout == "HND")


def nvfp4_quantize_append_paged_kv_cache_with_slot_mapping(
        append_key: Tensor, append_value: Tensor, slot_mapping: Tensor,
        paged_kv_cache: Tensor | tuple[Tensor, Tensor], kv_cache_sf: tuple[Tensor, Tensor],
        k_scale: float | Tensor, v_scale: float | Tensor, kv_layout: str = "NHD") -> None:
    """nvfp4_quantize_append_paged_kv_cache() with a slot for each token.

    Args:
        slot_mapping: ``[num_slots]`` int32 or int64: page · page_size + place of each of the first
            num_slots tokens; one without a slot in the cache is left out.
    """
    _check_kv_layout(kv_layout)
    scales = _decode_scale("k_scale", k_scale), _decode_scale("v_scale", v_scale)
    caches = _unpack_paged_kv_cache(paged_kv_cache, kv_layout)
    num_pages, page_size = caches[0].shape[0], caches[0].shape[1 if kv_layout == "NHD" else 2]
    # All pages as those of one request.
    is_inside = (slot_mapping >= 0) & (slot_mapping < num_pages * page_size)
    batch_indices = as_dtype(is_inside, "int32") - 1
    positions = as_dtype(slot_mapping * is_inside, "int32")
    pages = empty((num_pages,), slot_mapping, "int32")
    pages[...] = 1
    pages = as_dtype(pages.cumsum(0) - 1, "int32")
    indptr = empty((2,), slot_mapping, "int32")
    indptr[0], indptr[1] = 0, num_pages
    last_page_len = empty((1,), slot_mapping, "int32")
    last_page_len[...] = page_size
    num_slots = slot_mapping.shape[0]
    _append_nvfp4((append_key[:num_slots], append_value[:num_slots]), scales,
                  (batch_indices, positions, pages, indptr, last_page_len), caches,
                  _unpack_paged_kv_cache(kv_cache_sf, kv_layout), kv_layout == "HND")
