# SPDX-License-Identifier: Apache-2.0
"""New tensors in the framework of those that were given, without importing any framework."""
import sys
from typing import Any

#: In annotations: a tensor of torch, or an array of NumPy, CuPy or JAX.
Tensor = Any

_framework_names = {}  # type of a tensor -> its framework's name


def framework_of(x):
    """The module whose ``empty`` makes tensors for results beside `x`: torch, numpy, cupy.

    Arrays of JAX cannot be written: beside them in host memory results are NumPy's, which
    ``jax.numpy.asarray`` takes over; on a device the caller gives the outputs.
    """
    name = _framework_names.get(type(x))
    if name is None:
        name = _framework_names[type(x)] = _framework_name(type(x))
    if name == "jax":
        if is_on_cuda(x):
            raise TypeError("an array of JAX is on a device, where outputs must be given: JAX "
                            "cannot make arrays to write to")
        name = "numpy"
    return sys.modules[name]


def is_of_jax(x):
    """Whether it is an array of JAX, which never changes."""
    return "jax" in sys.modules and any(
        base.__module__.partition(".")[0] == "jax" for base in type(x).__mro__)


def _framework_name(kind):
    for base in kind.__mro__:
        name = base.__module__.partition(".")[0]
        if name in ("torch", "numpy", "cupy", "jax"):
            return name
    raise TypeError(f"a tensor is a {kind.__module__}.{kind.__qualname__}, "
                    "accepted: tensors of torch, arrays of NumPy, CuPy or JAX")


def dtype_named(x, name):
    """The dtype called `name` ("float16", "float8_e4m3fn") in the framework of `x`."""
    framework = framework_of(x)
    found = getattr(framework, name, None)
    if found is None or framework.__name__ != "torch":
        if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
            import ml_dtypes

            found = getattr(ml_dtypes, name)
        elif name == "bool":
            found = bool
    if found is None:
        raise TypeError(f"{framework.__name__} has no dtype {name}")
    return found


def dtype_name(dtype):
    """The name of a framework's dtype, or of its name: "float16" of torch.float16 and "float16"."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return name.removeprefix("torch.")


_empty_like = {}  # type of a tensor -> its framework's function


def empty_like(x):
    """A tensor of the shape, dtype and device of `x`."""
    make = _empty_like.get(type(x))
    if make is None:
        make = _empty_like[type(x)] = framework_of(x).empty_like
    return make(x)


def empty(shape, like, dtype=None):
    """A dense tensor on the device of `like`; `dtype` is one of its framework's, a name, or None
    for that of `like`."""
    framework = framework_of(like)
    if framework.__name__ == "torch":
        if dtype is None and shape:
            return like.new_empty(*shape)  # 1.1 us sooner than with its dtype, and a tuple
        if isinstance(dtype, str):
            dtype = dtype_named(like, dtype)
        return like.new_empty(shape, dtype=dtype)
    if dtype is None:
        dtype = like.dtype
    elif isinstance(dtype, str):
        dtype = dtype_named(like, dtype)
    return framework.empty(shape, dtype=dtype)


def is_on_cuda(x):
    """Whether a tensor is in the memory of a CUDA device."""
    device = getattr(x, "device", None)
    if getattr(device, "type", None) == "cuda":
        return True
    name = _framework_name(type(x))
    return name == "cupy" or (name == "jax" and getattr(device, "platform", "cpu") != "cpu")


def on_host(x):
    """`x` where the host can read it: the same, or a copy, which waits for the device."""
    if x is None or not is_on_cuda(x):
        return x
    return x.cpu() if hasattr(x, "cpu") else x.get()


def like_device(host, like):
    """A host tensor on the device of `like`."""
    if not is_on_cuda(like):
        return host
    return host.to(like.device) if hasattr(host, "to") else framework_of(like).asarray(host)


def as_dtype(x, name):
    """`x` of the dtype called `name`: the same, or converted."""
    if dtype_name(x.dtype) == name:
        return x
    dtype = dtype_named(x, name)
    return x.to(dtype) if hasattr(x, "to") else x.astype(dtype)


def scalar_or_tensor(value):
    """(number, tensor or None) of a scale given either way, as the library's functions take it."""
    if value is None:
        return 1.0, None
    if hasattr(value, "__dlpack__"):
        return 1.0, value
    return float(value), None


def dense(x):
    """`x` with its elements next to each other: the same, or a copy."""
    if hasattr(x, "contiguous"):
        return x.contiguous()
    return framework_of(x).ascontiguousarray(x)


def stride_of(x, dim):
    """Elements between neighbours in a dimension; arrays of JAX are dense."""
    if hasattr(x, "strides"):
        return x.strides[dim] // x.itemsize
    if hasattr(x, "stride"):
        return x.stride(dim)
    stride = 1
    for size in x.shape[dim % len(x.shape) + 1:]:
        stride *= size
    return stride


def as_bytes(x):
    """A view of a tensor of one byte an element as uint8."""
    return x if dtype_name(x.dtype) == "uint8" else x.view(dtype_named(x, "uint8"))
