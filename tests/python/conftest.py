# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: frameworks, random inputs with printed seeds, tolerances.

The oracle of every test is float64 NumPy, never the library.
"""
import os

import ml_dtypes
import numpy as np
import pytest

try:
    import torch
except ImportError:
    torch = None

# The error of rounding to a dtype, for a value of 1; all arithmetic is float32, whose own roundings
# only a float32 result sees.
EPSILON = {"float32": 2.0**-21, "float16": 2.0**-10, "bfloat16": 2.0**-7,
           "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2}
NUMPY_DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
                "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


class NumpyTensors:
    """Makes arrays, and reads them back as NumPy."""

    name = "numpy"

    def dtype(self, name):
        return np.dtype(NUMPY_DTYPES.get(name, name))

    def make(self, array, dtype=None):
        """A tensor of `array`, rounded to `dtype` when one is named."""
        return np.array(array) if dtype is None else np.array(array).astype(self.dtype(dtype))

    def full(self, shape, value, dtype):
        return np.full(shape, value).astype(self.dtype(dtype))

    def read(self, tensor):
        """The values as float64, or as they are where they are integers."""
        return tensor if tensor.dtype.kind in "iub" else tensor.astype(np.float64)


class TorchTensors:
    """As NumpyTensors, of torch tensors on the CPU."""

    name = "torch"

    def dtype(self, name):
        return getattr(torch, name)

    def make(self, array, dtype=None):
        tensor = torch.from_numpy(np.array(array))
        return tensor if dtype is None else tensor.to(self.dtype(dtype))

    def full(self, shape, value, dtype):
        return torch.full(shape, value).to(self.dtype(dtype))

    def read(self, tensor):
        if tensor.dtype.is_floating_point:
            return tensor.detach().double().numpy()
        return tensor.numpy()


class CudaTensors(TorchTensors):
    """As TorchTensors, on the CUDA device."""

    name = "cuda"

    def make(self, array, dtype=None):
        return super().make(array, dtype).cuda()

    def full(self, shape, value, dtype):
        return super().full(shape, value, dtype).cuda()

    def read(self, tensor):
        assert tensor.is_cuda, "the tensor is in host memory"
        return super().read(tensor.cpu())


HAS_CUDA = torch is not None and torch.cuda.is_available()
FRAMEWORKS = {"numpy": NumpyTensors, "torch": TorchTensors, "cuda": CudaTensors}


@pytest.fixture(params=["numpy", "torch", "cuda"] if HAS_CUDA else ["numpy", "torch"])
def tensors(request):
    """The frameworks in turn; torch is left out where it is not installed, CUDA where torch sees
    no device."""
    if request.param == "torch" and torch is None:
        pytest.skip("torch is not installed: tools/setup --dev installs it")
    return FRAMEWORKS[request.param]()


@pytest.fixture
def rng():
    """Random numbers, fresh each time; FLASHINFER_TEST_SEED repeats a printed seed."""
    seed = int(os.environ.get("FLASHINFER_TEST_SEED", np.random.SeedSequence().entropy % 2**32))
    print(f"FLASHINFER_TEST_SEED={seed}")
    return np.random.default_rng(seed)


def check_close(actual, expected, dtype, scale=1.0):
    """Within two roundings to `dtype` of the larger of `expected` and `scale`; NaN nowhere."""
    actual = np.asarray(actual, np.float64)
    limit = 2 * EPSILON[dtype] * np.maximum(np.abs(expected), scale)
    wrong = ~(np.abs(actual - expected) <= limit)  # true for NaN
    assert not wrong.any(), (f"{wrong.sum()} of {wrong.size} differ, the first at "
                             f"{np.argwhere(wrong)[0]}: {actual[wrong][0]}, "
                             f"expected {expected[wrong][0]} within {limit[wrong][0]:.3g}")
