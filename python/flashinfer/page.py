# SPDX-License-Identifier: Apache-2.0
"""Writing to a paged KV cache, and the integers that go with it.

Token t of request b is in page ``kv_indices[kv_indptr[b] + t // page_size]``, slot
``t % page_size``. Tables are int32; those of a request count the tokens that are appended.
"""
from ._binding import lib
from ._pending import pending
from ._tensors import as_dtype, empty, is_on_cuda
from .jit.modules import gen_page_module
from .utils import _check_kv_layout, _unpack_paged_kv_cache


def get_page_module():
    """The library's functions, under the name of the original's module."""
    return lib


def get_seq_lens(kv_indptr, kv_last_page_len, page_size):
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


def get_batch_indices_positions(append_indptr, seq_lens, nnz, batch_indices=None, positions=None):
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


def append_paged_kv_cache(append_key, append_value, batch_indices, positions, paged_kv_cache,
                          kv_indices, kv_indptr, kv_last_page_len, kv_layout="NHD"):
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


def append_paged_mla_kv_cache(append_ckv, append_kpe, batch_indices, positions, ckv_cache,
                              kpe_cache, kv_indices, kv_indptr, kv_last_page_len):
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


nvfp4_quantize_append_paged_kv_cache = pending("nvfp4_quantize_append_paged_kv_cache")
nvfp4_quantize_append_paged_kv_cache_with_slot_mapping = pending(
    "nvfp4_quantize_append_paged_kv_cache_with_slot_mapping")
