# SPDX-License-Identifier: Apache-2.0
"""flashinfer.norm against float64 NumPy."""
import numpy as np
import pytest
from conftest import check_close

import flashinfer


def rms(x, weight, eps):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 64), (19, 576), (3, 5, 128)])
@pytest.mark.parametrize("gives_out", [False, True])
def test_rmsnorm(tensors, rng, dtype, shape, gives_out):
    x = tensors.make(rng.standard_normal(shape), dtype)
    weight = tensors.make(rng.standard_normal(shape[-1]), dtype)
    out = tensors.full(shape, np.nan, dtype) if gives_out else None
    result = flashinfer.rmsnorm(x, weight, 1e-5, out)
    assert out is None or result is out
    assert result.dtype == x.dtype
    expected = rms(tensors.read(x), tensors.read(weight), 1e-5)
    check_close(tensors.read(result), expected, dtype)
