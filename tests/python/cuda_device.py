# SPDX-License-Identifier: Apache-2.0
"""Memory of a CUDA device for programs of tests that run with a driver in the library path."""
import ctypes
import sys
import traceback

sys.modules["torch"] = None  # it would look for devices through a library that it brings

import ml_dtypes
import numpy as np

cuda = ctypes.CDLL("libcuda.so.1")


def must(status):
    assert status == 0, f"the driver says {status}"


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_CODES = {"bool": 6, "float32": 2, "float16": 2, "int32": 0, "int64": 0, "uint8": 1, "bfloat16": 4,
          "float8_e4m3fn": 10}


class DeviceArray:
    """Device memory with the values of an array, given away by DLPack."""

    def __init__(self, values):
        values = np.ascontiguousarray(values)
        pointer = ctypes.c_uint64()
        must(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(values.nbytes, 1))))
        self.dtype, self.shape, self.pointer = values.dtype, values.shape, pointer.value
        self.strides = None  # of elements, where they do not lie next to each other
        self.given = []  # must outlive what was given away
        must(cuda.cuMemcpyHtoDAsync_v2(pointer, values.ctypes.data_as(ctypes.c_void_p),
                                       ctypes.c_size_t(values.nbytes), None))
        must(cuda.cuStreamSynchronize(None))

    def write(self, values):
        values = np.ascontiguousarray(values, self.dtype)
        must(cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(self.pointer),
                                       values.ctypes.data_as(ctypes.c_void_p),
                                       ctypes.c_size_t(values.nbytes), None))
        must(cuda.cuStreamSynchronize(None))

    def read(self):
        out = np.empty(self.shape, self.dtype)
        must(cuda.cuStreamSynchronize(None))
        must(cuda.cuMemcpyDtoHAsync_v2(out.ctypes.data_as(ctypes.c_void_p),
                                       ctypes.c_uint64(self.pointer), ctypes.c_size_t(out.nbytes),
                                       None))
        must(cuda.cuStreamSynchronize(None))
        return out

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        """A part from the start on, in the same memory."""
        assert key.start is None and key.step is None
        part = type(self).__new__(type(self))
        part.dtype, part.pointer, part.strides = self.dtype, self.pointer, self.strides
        part.shape, part.given = (min(key.stop, self.shape[0]), *self.shape[1:]), []
        return part

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        sizes = (ctypes.c_int64 * len(self.shape))(*self.shape)
        strides = self.strides and (ctypes.c_int64 * len(self.shape))(*self.strides)
        managed = _Managed(_Tensor(self.pointer, 2, 0, len(self.shape), _CODES[self.dtype.name],
                                   8 * self.dtype.itemsize, 1, sizes, strides, 0), None, None)
        self.given.append((managed, sizes, strides))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        return new(ctypes.addressof(managed), b"dltensor", None)


rng = np.random.default_rng()


def values(*shape, dtype=ml_dtypes.bfloat16):
    return rng.standard_normal(shape).astype(dtype)


def nans(*shape, dtype=ml_dtypes.bfloat16):
    return np.full(shape, np.nan, dtype)


def main(tests):
    """Runs the functions of `tests` whose names begin with test_; how many failed."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    must(cuda.cuInit(0))
    must(cuda.cuDeviceGet(ctypes.byref(device), 0))
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    must(cuda.cuCtxPushCurrent_v2(context))
    failed = 0
    for name in sys.argv[1:] or [name for name in tests if name.startswith("test_")]:
        try:
            tests[name]()
        except Exception:  # every test is to be heard of
            failed += 1
            print(f"{name} failed")
            traceback.print_exc()
    return failed
