# SPDX-License-Identifier: Apache-2.0
"""Operations and bytes of attention. Times are in milliseconds, lengths are sequences of numbers
or tensors; a causal query sees the keys up to its own, aligned at the end."""
from __future__ import annotations

from typing import Any

from .._tensors import Tensor, dtype_name

_BYTES = {"float8_e4m3fn": 1, "float8_e5m2": 1, "uint8": 1, "int8": 1, "float16": 2, "bfloat16": 2,
          "float32": 4}


def _numbers(lengths):
    values = lengths.flatten().tolist() if hasattr(lengths, "flatten") else list(lengths)
    return [int(value) for value in values]


def _pairs(q_len, kv_len, causal):
    """Twice the pairs of a query and a key that it sees."""
    return q_len * (2 * kv_len - q_len) if causal else 2 * q_len * kv_len


def attention_flops(batch_size: int, qo_seqlen: int, kv_seqlen: int, head_dim_qk: int,
                    head_dim_vo: int, num_qo_heads: int, causal: bool) -> float:
    """Operations of a batch of equal requests, a multiplication and an addition counted as two."""
    pairs = batch_size * _pairs(qo_seqlen, kv_seqlen, causal)
    return pairs * num_qo_heads * (head_dim_qk + head_dim_vo)


def attention_flops_with_actual_seq_lens(actual_seq_lens_q: Tensor, actual_seq_lens_kv: Tensor,
                                         head_dim_qk: int, head_dim_vo: int, num_qo_heads: int,
                                         causal: bool) -> float:
    """Operations of a batch of requests of any lengths."""
    pairs = sum(_pairs(q, kv, causal) for q, kv in zip(_numbers(actual_seq_lens_q),
                                                       _numbers(actual_seq_lens_kv)))
    return pairs * num_qo_heads * (head_dim_qk + head_dim_vo)


def _per_second(amount, milliseconds):
    """Units of 10^12 a second; 0 of a time that is not known."""
    is_known = milliseconds == milliseconds and 0 < milliseconds < float("inf")
    return amount / milliseconds / 1e9 if is_known else 0.0


def attention_tflops_per_sec(batch_size: int, qo_seqlen: int, kv_seqlen: int, head_dim_qk: int,
                             head_dim_vo: int, num_qo_heads: int, causal: bool,
                             time: float) -> float:
    """Tera operations a second of attention_flops() in `time` milliseconds."""
    return _per_second(attention_flops(batch_size, qo_seqlen, kv_seqlen, head_dim_qk, head_dim_vo,
                                       num_qo_heads, causal), time)


def attention_tflops_per_sec_with_actual_seq_lens(
        actual_seq_lens_q: Tensor, actual_seq_lens_kv: Tensor, head_dim_qk: int, head_dim_vo: int,
        num_qo_heads: int, causal: bool, ms: float) -> float:
    """As attention_tflops_per_sec(), of requests of different lengths, in `ms` milliseconds."""
    return _per_second(
        attention_flops_with_actual_seq_lens(actual_seq_lens_q, actual_seq_lens_kv, head_dim_qk,
                                             head_dim_vo, num_qo_heads, causal), ms)


def attention_tb_per_sec(batch_size: int, qo_seqlen: int, kv_seqlen: int, head_dim_qk: int,
                         head_dim_vo: int, num_qo_heads: int, num_kv_heads: int, time: float,
                         q_dtype: Any = "bfloat16", kv_dtype: Any = "bfloat16",
                         o_dtype: Any = "bfloat16") -> float:
    """Terabytes a second of queries, keys, values and results, each counted once."""
    return attention_tb_per_sec_with_actual_seq_lens(
        [qo_seqlen] * batch_size, [kv_seqlen] * batch_size, head_dim_qk, head_dim_vo, num_qo_heads,
        num_kv_heads, time, q_dtype, kv_dtype, o_dtype)


def attention_tb_per_sec_with_actual_seq_lens(
        actual_seq_lens_q: Tensor, actual_seq_lens_kv: Tensor, head_dim_qk: int, head_dim_vo: int,
        num_qo_heads: int, num_kv_heads: int, time: float, q_dtype: Any = "bfloat16",
        kv_dtype: Any = "bfloat16", o_dtype: Any = "bfloat16") -> Any:
    """As attention_tb_per_sec(), of requests of different lengths."""
    q_rows = sum(_numbers(actual_seq_lens_q)) * num_qo_heads
    kv_rows = sum(_numbers(actual_seq_lens_kv)) * num_kv_heads
    num_bytes = (q_rows * head_dim_qk * _BYTES[dtype_name(q_dtype)]
                 + kv_rows * (head_dim_qk + head_dim_vo) * _BYTES[dtype_name(kv_dtype)]
                 + q_rows * head_dim_vo * _BYTES[dtype_name(o_dtype)])
    return _per_second(num_bytes, time)
