# SPDX-License-Identifier: Apache-2.0
"""What samplers make of their arguments: values per row, seeds, the call itself."""
from __future__ import annotations

import sys
from typing import Any

from . import _compiling
from ._binding import lib
from ._tensors import as_dtype, dtype_name, dtype_named, empty, framework_of, is_on_cuda

_MAX_INT32 = 2**31 - 1
_ORDERS = {"top_k_first": False, "joint": True}
# Each filter, the value that switches it off, its dtype: as lib.sample_from_logits takes them.
_FILTERS = (("temperature", 1.0, "float32"), ("top_k", 0, "int32"), ("top_p", 1.0, "float32"),
            ("min_p", 0.0, "float32"))


def _is_tensor(value: Any) -> bool:
    if isinstance(value, (int, float)) or not hasattr(value, "ndim"):
        return False
    numpy = sys.modules.get("numpy")
    return numpy is None or not isinstance(value, numpy.generic)


def per_row(name: str, value: Any, dtype: str, rows: Any, indices: Any, by_source: bool) -> Any:
    """A filter's parameter as the library takes it: a number, or a tensor with one per output.

    With `by_source`, a tensor has one per row of `rows`, and those of the drawn rows are taken.
    """
    if type(value) is float and dtype == "float32":  # nearly always
        return value
    if not _is_tensor(value):
        if not _compiling.ask() and not hasattr(value, "__float__"):
            raise TypeError(f"{name}: is a {type(value).__qualname__}, accepted: a number, a tensor")
        return min(_whole(name, value), _MAX_INT32) if dtype == "int32" else float(value)
    if value.ndim == 0:
        raise ValueError(f"{name}: Expected a 1D tensor of shape (batch_size,) or scalar, "
                         "got a 0-dimensional tensor")
    if value.ndim != 1:
        raise ValueError(f"{name}: Expected a 1D tensor or scalar, got a {value.ndim}D tensor")
    count, num_rows = value.shape[0], rows.shape[0]
    if dtype == "int32":
        _refuse_fractions(name, value)
    value = as_dtype(value, dtype)
    if indices is None:
        if count == num_rows:
            return value
    elif count == indices.shape[0] and not by_source:
        return value
    elif count == num_rows:
        return value[as_dtype(indices, "int64")]
    outputs = "" if indices is None else f" and {indices.shape[0]} indices"
    raise ValueError(f"{name}: Sampling parameter tensor batch size mismatch: it has {count}, "
                     f"the input {num_rows} rows{outputs}")


def _whole(name: str, value: Any) -> int:
    """The number as an int, if that changes nothing."""
    if not _compiling.ask() and not isinstance(value, int) and value != int(value):
        raise ValueError(f"{name}: is {value}, accepted: whole numbers")
    return int(value)


def _refuse_fractions(name: str, values: Any) -> None:
    """Where the host can read floating-point values; elsewhere they are cut."""
    if "float" not in dtype_name(values.dtype) or is_on_cuda(values) or _compiling.ask():
        return
    whole = as_dtype(as_dtype(values, "int64"), dtype_name(values.dtype))
    if not bool((whole == values).all()):
        raise ValueError(f"{name}: has fractions, accepted: whole numbers")


def _signed(number: Any) -> int:
    """The int64 of the same bits as a uint64."""
    return (int(number) + 2**63) % 2**64 - 2**63


def _word(name: str, value: Any, num_outputs: int) -> Any:
    """A seed or offset as the library takes it."""
    if type(value) is int and 0 <= value < 2**63:  # nearly always; 0.5 us sooner
        return value
    if not _is_tensor(value):
        return _signed(_whole(name, value))
    if "int" not in dtype_name(value.dtype):
        raise ValueError(f"{name}: dtype is {dtype_name(value.dtype)}, accepted: integers")
    if value.ndim == 0:
        value = value.reshape(1)
    if value.ndim != 1 or value.shape[0] not in (1, num_outputs):
        raise ValueError(f"{name}: shape is {list(value.shape)}, accepted: [1], [{num_outputs}]")
    unsigned = dtype_named(value, "uint64")
    if value.dtype == unsigned:
        return value.view(dtype_named(value, "int64"))
    return as_dtype(value, "int64")


def _is_recorded(rows: Any) -> bool:
    """Whether work on `rows` is traced or recorded now, so that its values cannot be read."""
    if _compiling.ask():
        return True
    return framework_of(rows).__name__ == "torch" and rows.is_cuda and (
        framework_of(rows).cuda.is_current_stream_capturing())


def drawn_seed(rows: Any, generator: Any, num_words: int) -> tuple[Any, Any]:
    """A seed and offset out of a generator, which is advanced."""
    framework = framework_of(rows)
    if framework.__name__ != "torch":
        if generator is None:
            return int(framework.random.randint(0, 2**63 - 1, dtype="int64")), 0
        draw = getattr(generator, "integers", None) or generator.randint
        return int(draw(0, 2**63 - 1, dtype="int64")), 0
    if not rows.is_cuda or _is_recorded(rows):
        # On the device where it is recorded: a graph's replay then draws anew.
        return framework.randint(0, 2**63 - 1, (1,), dtype=framework.int64, device=rows.device,
                                 generator=generator), 0
    if generator is None:
        generator = framework.cuda.default_generators[rows.device.index]
    elif generator.device.type == "cpu":
        return int(framework.randint(0, 2**63 - 1, (1,), dtype=framework.int64,
                                     generator=generator)), 0
    offset = generator.get_offset()
    generator.set_offset(offset + (num_words + 3) // 4 * 4)
    return _signed(generator.initial_seed()), offset


def seed_and_offset(rows: Any, num_outputs: int, generator: Any, seed: Any, offset: Any,
                     num_words: int = 1) -> tuple[Any, Any]:
    if seed is None:
        if offset is not None:
            raise ValueError("offset: is given without seed, accepted: both, seed alone or neither")
        return drawn_seed(rows, generator, num_words)
    return (_word("seed", seed, num_outputs),
            _word("offset", 0 if offset is None else offset, num_outputs))


def _refuse_nan(name: str, rows: Any) -> None:
    framework = framework_of(rows)
    has_nan = framework.isnan(rows).any()
    if _is_recorded(rows):
        framework._assert_async(~has_nan, f"Input {name} contains NaN.")
    elif has_nan:
        raise ValueError(f"Input {name} contains NaN.")


def sample_filtered(name: str, rows: Any, filters: dict, *, order: str = "joint",
                    by_source: bool = False, indices: Any = None, generator: Any = None,
                    check_nan: bool = False, seed: Any = None, offset: Any = None,
                    return_valid: bool = False) -> Any:
    """Draws from `rows`, which are logits or probabilities as `name` says, after `filters`, a
    dictionary of any of temperature (of logits), top_k, top_p and min_p."""
    if order not in _ORDERS:
        raise ValueError(f"filter_apply_order: is {order!r}, accepted: 'top_k_first', 'joint'")
    if check_nan:
        _refuse_nan(name, rows)
    num_outputs = rows.shape[0] if indices is None else indices.shape[0]
    values = [per_row(key, filters[key], dtype, rows, indices, by_source) if key in filters else off
              for key, off, dtype in _FILTERS]
    seed, offset = seed_and_offset(rows, num_outputs, generator, seed, offset)
    tokens = empty((num_outputs,), rows, "int32")
    valid = empty((num_outputs,), rows, "bool") if return_valid else None
    if name == "probs":
        lib.sample_from_probs(rows, tokens, valid, indices, *values[1:], _ORDERS[order], seed,
                              offset)
    else:
        lib.sample_from_logits(rows, tokens, valid, indices, *values, _ORDERS[order], seed, offset)
    if indices is not None and indices.dtype != tokens.dtype:
        tokens = as_dtype(tokens, "int64")
    return (tokens, valid) if return_valid else tokens
