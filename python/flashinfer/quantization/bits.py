# SPDX-License-Identifier: Apache-2.0
"""Packing truth values into bits. The work is the host's: tensors on a device are copied there
and back, which waits for the device."""
from .._binding import lib
from .._tensors import as_dtype, dtype_name, empty, like_device, on_host


def _is_little(bitorder):
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder is {bitorder!r}, accepted: big, little")
    return bitorder == "little"


def _truth_values(x):
    """`x` on the host, as bool or uint8."""
    host = on_host(x)
    return host if dtype_name(host.dtype) in ("bool", "uint8") else as_dtype(host, "bool")


def packbits(x, bitorder="big"):
    """Packs truth values into bits, as numpy.packbits does; the last byte is filled with zeros.

    Args:
        x: ``[n]``, bool, or any number, of which nonzero is true.
        bitorder: which bit of a byte holds the first of eight values: "big", the most significant;
            "little", the least: what attention masks use.

    Returns:
        ``[ceil(n / 8)]``, uint8.
    """
    is_little = _is_little(bitorder)
    host = _truth_values(x)
    packed = empty(((host.shape[0] + 7) // 8,), host, "uint8")
    lib.packbits(host, packed, is_little)
    return like_device(packed, x)


def segment_packbits(x, indptr, bitorder="big"):
    """Packs each segment on its own, so that every segment begins on a byte.

    Args:
        x: ``[indptr[num_segments]]``, as in packbits().
        indptr: ``[num_segments + 1]``, integers: where segments begin in `x`.

    Returns:
        (uint8 bytes, ``[num_segments + 1]`` int32: where segments begin in them)
    """
    is_little = _is_little(bitorder)
    host, host_indptr = _truth_values(x), as_dtype(on_host(indptr), "int32")
    packed_indptr = empty(tuple(host_indptr.shape), host_indptr)
    packed = empty((lib.segment_packbits_bytes(host_indptr),), host, "uint8")
    lib.segment_packbits(host, host_indptr, packed, packed_indptr, is_little)
    return like_device(packed, x), like_device(packed_indptr, indptr)
