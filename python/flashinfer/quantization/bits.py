# SPDX-License-Identifier: Apache-2.0
"""Packing truth values into bits, where they are."""
from __future__ import annotations

from .._binding import lib
from .._tensors import Tensor, as_dtype, dense, dtype_name, empty, like_device, on_host


def _is_little(bitorder):
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder is {bitorder!r}, accepted: big, little")
    return bitorder == "little"


def _truth_values(x):
    """`x` as dense bool or uint8."""
    return dense(x if dtype_name(x.dtype) in ("bool", "uint8") else as_dtype(x, "bool"))


def packbits(x: Tensor, bitorder: str = "big") -> Tensor:
    """Packs truth values into bits, as numpy.packbits does; the last byte is filled with zeros.

    Args:
        x: ``[n]``, bool, or any number, of which nonzero is true.
        bitorder: which bit of a byte holds the first of eight values: "big", the most significant;
            "little", the least: what attention masks use.

    Returns:
        ``[ceil(n / 8)]``, uint8.
    """
    is_little = _is_little(bitorder)
    values = _truth_values(x)
    packed = empty(((values.shape[0] + 7) // 8,), values, "uint8")
    lib.packbits(values, packed, is_little)
    return packed


def segment_packbits(x: Tensor, indptr: Tensor, bitorder: str = "big") -> tuple[Tensor, Tensor]:
    """Packs each segment on its own, so that every segment begins on a byte.

    How many bytes there are depends on `indptr`, which is read on the host; where it is on a
    device that is waited for.

    Args:
        x: ``[indptr[num_segments]]``, as in packbits().
        indptr: ``[num_segments + 1]``, integers: where segments begin in `x`.

    Returns:
        (uint8 bytes, ``[num_segments + 1]`` int32: where segments begin in them)
    """
    is_little = _is_little(bitorder)
    values, host_indptr = _truth_values(x), as_dtype(on_host(indptr), "int32")
    packed_indptr = empty(tuple(host_indptr.shape), host_indptr)
    packed = empty((lib.segment_packbits_bytes(host_indptr),), values, "uint8")
    lib.segment_packbits(values, host_indptr, packed, packed_indptr, is_little)
    return packed, like_device(packed_indptr, indptr)
