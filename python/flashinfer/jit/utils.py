# SPDX-License-Identifier: Apache-2.0
"""Short names of dtypes, as kernel names have them."""
from .._tensors import dtype_name

_SHORT_NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float8_e4m3fn": "e4m3",
                "float8_e5m2": "e5m2", "int8": "i8", "uint8": "u8", "int32": "i32",
                "uint32": "u32", "int64": "i64", "uint64": "u64"}


class _DtypeNames(dict):
    """A table by dtype, of torch or NumPy, or by its name."""

    def __missing__(self, dtype):
        short = _SHORT_NAMES.get(dtype_name(dtype))
        if short is None:
            raise KeyError(dtype)
        self[dtype] = short
        return short


filename_safe_dtype_map = _DtypeNames()
