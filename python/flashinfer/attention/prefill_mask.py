# SPDX-License-Identifier: Apache-2.0
"""Masks of a batch as plan() of the prefill wrappers takes them."""
from .arguments import as_numpy, check_mask, copy_into, like
from .record import MASK_CAUSAL, MASK_CUSTOM, MASK_MULTI_ITEM, MASK_NONE


def _packed(custom_mask, sizes):
    """The bits of each request of `sizes`, lowest first, from a byte on, of NumPy arrays."""
    import numpy

    ends = numpy.cumsum(sizes)
    parts = [numpy.packbits(custom_mask[end - size:end], bitorder="little")
             for size, end in zip(sizes, ends)]
    return numpy.concatenate(parts) if parts else numpy.empty(0, numpy.uint8)


def batch_mask(q_lens, kv_lens, *, causal, custom_mask, packed_custom_mask, prefix_len_ptr,
               token_pos_in_items_ptr, token_pos_in_items_len, buffers, device_like):
    """(mask mode, mask, prefix lengths) of the binding's attention_plan().

    `q_lens` and `kv_lens` give NumPy lengths when called. `buffers` are a graph's custom_mask_buf
    and mask_indptr_buf, or None; they get the bits and the bytes where requests begin.
    """
    if prefix_len_ptr is custom_mask is packed_custom_mask is token_pos_in_items_ptr is None:
        return (MASK_CAUSAL if causal else MASK_NONE), None, None
    import numpy

    if prefix_len_ptr is not None:
        token_pos_in_items_len = int(token_pos_in_items_len)  # of a tensor, too
        if token_pos_in_items_ptr is None or token_pos_in_items_len <= 0:
            raise ValueError("token_pos_in_items_ptr, token_pos_in_items_len: are needed with "
                             "prefix_len_ptr")
        if custom_mask is not None or packed_custom_mask is not None:
            raise ValueError("custom_mask: cannot be had along with the mask of prefix_len_ptr")
        prefix = as_numpy(prefix_len_ptr).reshape(-1).astype(numpy.int32)
        given = as_numpy(token_pos_in_items_ptr).reshape(-1)
        places = numpy.zeros((len(prefix), token_pos_in_items_len), numpy.int32)
        # The last request may leave out what is behind its tokens.
        if not places.size - token_pos_in_items_len < given.size <= places.size:
            raise ValueError(f"token_pos_in_items_ptr: has {given.size} places, expected "
                             f"{len(prefix)} requests of token_pos_in_items_len, "
                             f"{token_pos_in_items_len}")
        places.reshape(-1)[:given.size] = given
        return MASK_MULTI_ITEM, like(places, device_like), prefix
    if token_pos_in_items_ptr is not None:
        raise ValueError("token_pos_in_items_ptr: is of no use without prefix_len_ptr")
    sizes = q_lens() * kv_lens() if buffers is not None else None
    if packed_custom_mask is not None:
        mask = check_mask("packed_custom_mask", packed_custom_mask, "uint8")
    else:
        mask = check_mask("custom_mask", custom_mask, "bool")
        if buffers is not None:
            flat = as_numpy(mask).reshape(-1)
            if flat.size != sizes.sum():
                raise ValueError(f"custom_mask: has {flat.size} values, expected {sizes.sum()}")
            mask = like(_packed(flat, sizes), device_like)
    if buffers is not None:
        mask_buf, indptr_buf = buffers
        if mask_buf is None or indptr_buf is None:
            raise ValueError("custom_mask_buf, mask_indptr_buf: are None, expected tensors for a "
                             "mask with use_cuda_graph")
        ends = numpy.concatenate([[0], numpy.cumsum((sizes + 7) // 8)]).astype(numpy.int32)
        copy_into("mask_indptr_buf", indptr_buf, like(ends, indptr_buf))
        mask = copy_into("custom_mask_buf", mask_buf, mask)
    return MASK_CUSTOM, mask, None
