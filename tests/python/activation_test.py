# SPDX-License-Identifier: Apache-2.0
"""flashinfer.activation against float64 NumPy."""
import math

import numpy as np
import pytest
from conftest import check_close

import flashinfer

GATES = {
    "silu_and_mul": lambda z: z / (1 + np.exp(-z)),
    "gelu_and_mul": lambda z: z * (1 + np.vectorize(math.erf)(z / math.sqrt(2))) / 2,
    "gelu_tanh_and_mul": lambda z: z * (1 + np.tanh(math.sqrt(2 / math.pi)
                                                    * (z + 0.044715 * z**3))) / 2,
}


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(7, 64), (2, 3, 130), (2, 2, 3, 34)])
def test_gate(tensors, rng, name, dtype, shape):
    x = tensors.make(rng.standard_normal(shape) * 3, dtype)
    result = getattr(flashinfer, name)(x)
    assert tuple(result.shape) == shape[:-1] + (shape[-1] // 2,) and result.dtype == x.dtype
    first, second = np.split(tensors.read(x), 2, axis=-1)
    check_close(tensors.read(result), GATES[name](first) * second, dtype)
    out = tensors.full(result.shape, np.nan, dtype)
    assert getattr(flashinfer.activation, name)(x, out, enable_pdl=True) is out
    np.testing.assert_array_equal(tensors.read(out), tensors.read(result))


def test_rows_of_a_wider_tensor(tensors, rng):
    wide = tensors.make(rng.standard_normal((3, 4, 96)), "float32")
    x = wide[:, :, :64]
    dense = tensors.make(np.ascontiguousarray(tensors.read(x)), "float32")
    np.testing.assert_array_equal(tensors.read(flashinfer.silu_and_mul(x)),
                                  tensors.read(flashinfer.silu_and_mul(dense)))


def test_rows_unevenly_spaced_are_refused():
    x = np.zeros((4, 6, 64), np.float32)[:, ::2]
    x = x[:, :2]
    with pytest.raises(ValueError, match="not evenly spaced"):
        flashinfer.silu_and_mul(x)


def test_odd_size_is_refused(tensors):
    with pytest.raises(ValueError, match="even last dimension"):
        flashinfer.silu_and_mul(tensors.full((2, 5), 1.0, "float32"))
