# SPDX-License-Identifier: Apache-2.0
"""What the arguments of the attention functions have in common."""
import warnings

from .._errors import BackendSupportedError
from .._tensors import dtype_name, is_of_jax


def _module(tensor):
    return type(tensor).__module__.partition(".")[0]


def host(tensor):
    """`tensor` in host memory: itself when it is there. A device that has to copy is waited for."""
    if getattr(tensor, "is_cuda", False):
        return tensor.cpu()
    if _module(tensor) == "cupy":
        return tensor.get()
    return tensor


def as_numpy(tensor):
    """A NumPy array of integers or booleans: a view where that is possible."""
    tensor = host(tensor)
    module = _module(tensor)
    if module == "torch":
        return tensor.numpy()
    if module == "numpy":
        return tensor
    import numpy

    return numpy.asarray(tensor)


def workspace_address(buffer):
    """Where a tensor of any framework that can be written to begins; 0 when it does not say."""
    if hasattr(buffer, "data_ptr"):
        return buffer.data_ptr()
    if is_of_jax(buffer):
        raise ValueError("workspace: is an array of JAX, which cannot be written to; accepted: "
                         "tensors of torch, arrays of NumPy and CuPy")
    interface = getattr(buffer, "__array_interface__", None) or getattr(
        buffer, "__cuda_array_interface__", None)
    return interface["data"][0] if interface else 0


def like(values, tensor):
    """The NumPy array `values` in the framework and on the device of `tensor`."""
    module = _module(tensor)
    if module == "torch":
        import torch

        made = torch.from_numpy(values)
        return made.to(tensor.device) if tensor.is_cuda else made
    if module == "cupy":
        import cupy

        return cupy.asarray(values)
    return values


def on_device(tensor, other):
    """Integers on the device of `other`: `tensor` itself when it is there."""
    is_cuda = getattr(other, "is_cuda", None)
    if is_cuda:
        if getattr(tensor, "is_cuda", False) and tensor.get_device() == other.get_device():
            return tensor
        return tensor.to(other.device) if hasattr(tensor, "to") else like(tensor, other)
    if is_cuda is None and _module(other) == "cupy":
        return tensor if _module(tensor) == "cupy" else like(tensor, other)
    return host(tensor)


def copy_into(name, buffer, values):
    """Fills the start of a graph's buffer and returns that part."""
    count = len(values)
    if count > len(buffer):
        raise ValueError(f"{name}: has room for {len(buffer)}, {count} are needed")
    part = buffer[:count]
    if hasattr(part, "copy_"):
        part.copy_(values)
    else:
        part[...] = values
    return part


def check_graph_buffers(**buffers):
    """Raises for the first buffer that a wrapper with use_cuda_graph lacks."""
    for name, buffer in buffers.items():
        if buffer is None:
            raise ValueError(f"{name}: is None, expected a tensor with use_cuda_graph")


def even_indptr(num_requests, q_len):
    """Rows of requests with `q_len` each, as NumPy int32."""
    import numpy

    return numpy.arange(num_requests + 1, dtype=numpy.int32) * q_len


def page_lens(indptr, last_page_len, page_size):
    """Keys of each request, of NumPy arrays."""
    import numpy

    pages = numpy.diff(indptr)
    return numpy.where(pages > 0, (pages - 1) * page_size + last_page_len, 0)


def unpack_cache(paged_kv_cache):
    """(k, v) of a cache given as a pair; (cache, None) of one tensor with both planes."""
    if isinstance(paged_kv_cache, (tuple, list)):
        if len(paged_kv_cache) != 2:
            raise ValueError(f"paged_kv_cache: has {len(paged_kv_cache)} tensors, expected (k, v)")
        return paged_kv_cache
    return paged_kv_cache, None


def check_mask(name, mask, dtype):
    """Raises when a mask is of another dtype: a wrong one would be read as the other kind."""
    if dtype_name(mask.dtype) != dtype:
        raise ValueError(f"{name}: is {dtype_name(mask.dtype)}, expected {dtype}")
    return mask


def is_per_head(scale):
    """Whether a scale is a tensor of more than one number."""
    shape = getattr(scale, "shape", None)
    return shape is not None and len(shape) == 1 and shape[0] > 1


def number(name, scale):
    """A scale as a float: 1 for None; of a tensor its only value, for which a device is waited
    for."""
    if scale is None:
        return 1.0
    try:
        value = float(scale.item() if hasattr(scale, "item") else scale)
        if value == value:  # no NaN
            return value
        raise ValueError
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name}: is {scale!r}, expected a number or a tensor of one") from None


def refuse(**arguments):
    """Raises for the first argument that is given and that no kernel here honours yet."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise BackendSupportedError(f"{name}: is given, but no kernel here honours it yet; "
                                        "accepted: None")


def deprecated(message):
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def check_lens(name, given, computed):
    """Raises when lengths that are given besides the tables differ from those of the tables."""
    import numpy

    if given is not None and not numpy.array_equal(as_numpy(given).reshape(-1), computed):
        raise ValueError(f"{name}: differs from the lengths that the tables give, {computed}")


def check_most(name, given, computed):
    """Raises when the largest length that was promised is below the largest that there is."""
    if given is not None and len(computed) and int(given) < int(computed.max()):
        raise ValueError(f"{name}: is {int(given)}, but the largest length is {computed.max()}")
