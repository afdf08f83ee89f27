# SPDX-License-Identifier: Apache-2.0
"""The largest elements of rows of different lengths."""
from __future__ import annotations

from typing import Any

from ._binding import lib
from ._tensors import as_dtype, empty

_BACKENDS = ("auto", "radix", "gvr", "radix_cutlass", "radix_filter")


def top_k_varlen(logits: Any, seq_lens: Any, top_k: int, pre_idx: Any = None,
                 compress_ratio: int = 1, next_n: int = 1, return_values: bool = False,
                 out_indices: Any = None, out_values: Any = None, backend: str = "auto",
                 load_balance: bool = True, workspace: "dict | None" = None) -> tuple[Any, Any]:
    """The `top_k` largest of the first ``seq_lens[row]`` elements of each row.

    Args:
        logits: ``[num_rows, max_seq_len]`` float32, float16 or bfloat16.
        seq_lens: ``[num_rows]`` integers, at most max_seq_len.
        top_k: elements to keep; places after the last hold -1, and -inf.
        pre_idx: accepted; a hint, the result of the step before.
        compress_ratio, next_n: 1; others raise NotImplementedError.
        return_values: whether to give the values.
        out_indices: ``[num_rows, top_k]`` int32; made when None.
        out_values: ``[num_rows, top_k]`` of the dtype of `logits`; made when wanted.
        backend: accepted; there is one algorithm.
        load_balance, workspace: accepted; hints, and memory that is not needed.

    Returns:
        (`out_indices`, ascending; values or None)

    Raises:
        ValueError: a shape, dtype or value is wrong; names the argument.
    """
    if backend not in _BACKENDS:
        raise ValueError(f"backend: is {backend!r}, accepted: {', '.join(_BACKENDS)}")
    if compress_ratio != 1 or next_n != 1:
        raise NotImplementedError(f"top_k_varlen: compress_ratio={compress_ratio} and "
                                  f"next_n={next_n} are not implemented yet, 1 and 1 are")
    if top_k < 0:
        raise ValueError(f"top_k: is {top_k}, accepted: 0 or more")
    shape = (logits.shape[0], top_k)
    if out_indices is None:
        out_indices = empty(shape, logits, "int32")
    if not return_values:
        out_values = None
    elif out_values is None:
        out_values = empty(shape, logits)
    lib.top_k(logits, out_values, out_indices, False, False, None, as_dtype(seq_lens, "int32"))
    return out_indices, out_values
