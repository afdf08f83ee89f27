# SPDX-License-Identifier: Apache-2.0
"""Prefill of segments of rows, and of batches whose requests are all of one length, in one call."""
from __future__ import annotations

import math
from typing import Any

from .._tensors import Tensor, dtype_name
from ..jit.modules import spec_named
from .arguments import as_numpy, check_most, number, workspace_address
from .fused_prefill import run_ragged, softmax_pairs
from .planned import options
from .record import MASK_CAUSAL, MASK_NONE

_FP8 = ("float8_e4m3fn", "float8_e5m2")


def get_fmha_module(dtype_q: Any, dtype_kv: Any, dtype_o: Any, dtype_idx: Any, head_dim_qk: int,
                    head_dim_vo: int, pos_encoding_mode: Any, use_sliding_window: bool,
                    use_logits_soft_cap: bool, device: Any = None,
                    use_fp16_qk_reduction: bool = False) -> Any:
    """The library's functions: nothing is built ahead, whatever the arguments."""
    return spec_named("fmha_varlen").build_and_load()


def fmha_varlen_plan(module: Any, qo_segment_offsets: Tensor, kv_segment_offsets: Tensor,
                     num_qo_heads: int, causal: bool) -> tuple[Tensor, Tensor]:
    """What fmha_varlen() takes as `plan_info`: (qo_segment_offsets, kv_segment_offsets), since it
    plans by itself."""
    return qo_segment_offsets, kv_segment_offsets


def fmha_varlen(q: Tensor, k: Tensor, v: Tensor, qo_segment_offsets: Tensor,
                kv_segment_offsets: Tensor, plan_info: Any = None, max_qo_len: int | None = None,
                out: Tensor | None = None, lse: Tensor | None = None, causal: bool = False,
                sm_scale: float | None = None, q_scale: float | Tensor | None = None,
                k_scale: float | Tensor | None = None, v_scale: float | Tensor | None = None,
                o_scale: float | Tensor | None = None,
                return_lse: bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention of segments of rows over as many segments of keys.

    Args:
        q: ``[num_tokens, num_qo_heads, head_dim_qk]``.
        k: ``[num_keys, num_kv_heads, head_dim_qk]``.
        v: ``[num_keys, num_kv_heads, head_dim_vo]``.
        qo_segment_offsets, kv_segment_offsets: ``[num_segments + 1]`` int32, not decreasing, first
            0: rows.
        plan_info: accepted: what fmha_varlen_plan() gave for the same offsets.
        max_qo_len: at least the longest segment of q.
        out: ``[num_tokens, num_qo_heads, head_dim_vo]``; made when None, of the dtype of q, or
            bfloat16 where that has 8 bits.
        lse: ``[num_tokens, num_qo_heads]`` float32; made when wanted.
        causal: query i sees key j iff j <= kv_len - q_len + i.
        sm_scale: 1 / sqrt(head_dim_qk) when None.
        q_scale, k_scale, v_scale: what stored values are multiplied with; None: 1.
        o_scale: what the output is multiplied with before it is rounded; None: 1.

    Returns:
        (out, lse), also where lse is not wanted: it is then `lse`, base-2 logarithms.
    """
    rows, keys = (as_numpy(t).astype("int32") for t in (qo_segment_offsets, kv_segment_offsets))
    if max_qo_len is not None:
        check_most("max_qo_len", max_qo_len, rows[1:] - rows[:-1])
    if sm_scale is None:
        sm_scale = 1 / math.sqrt(q.shape[-1])
    scale = sm_scale * number("q_scale", q_scale) * number("k_scale", k_scale)
    out_dtype = "bfloat16" if out is None and dtype_name(q.dtype) in _FP8 else None
    result = run_ragged(q, k, v, None, rows, keys, options("NONE", -1, None, scale, None, None),
                        MASK_CAUSAL if causal else MASK_NONE, None,
                        number("v_scale", v_scale) * number("o_scale", o_scale), None, out,
                        out_dtype, lse, return_lse)
    return result if return_lse else (result, lse)


def _as_rows(name, x, shape):
    """``[batch_size, seq_len, heads, dim]`` as rows, in the same memory."""
    if len(x.shape) != 4 or tuple(x.shape[:3]) != shape:
        raise ValueError(f"{name}: shape is {list(x.shape)}, expected [batch_size, seq_len, "
                         f"num_heads, head_dim] that begins with {list(shape)}")
    rows = x.reshape((-1, *x.shape[2:]))
    if workspace_address(rows) != workspace_address(x):
        raise ValueError(f"{name}: its rows are not evenly spaced, expected a dense tensor")
    return rows


def _equal_lengths(query, key, value, out, num_heads, head_dim, seq_len, scales, causal,
                   return_lse, lse):
    import numpy

    if len(query.shape) != 4 or tuple(query.shape[1:]) != (seq_len, num_heads, head_dim):
        raise ValueError(f"query: shape is {list(query.shape)}, expected [batch_size, {seq_len}, "
                         f"{num_heads}, {head_dim}], as seq_len, num_heads and head_dim say")
    shape = tuple(query.shape[:3])
    q, k, v, o = (_as_rows(name, x, shape) for name, x in
                  (("query", query), ("key", key), ("value", value), ("out", out)))
    if return_lse and lse is not None and (tuple(lse.shape) != (*shape, 2)
                                           or dtype_name(lse.dtype) != "float32"):
        raise ValueError(f"lse: is {dtype_name(lse.dtype)} of shape {list(lse.shape)}, expected "
                         f"float32 {[*shape, 2]}")
    indptr = numpy.arange(shape[0] + 1, dtype=numpy.int32) * seq_len
    sm_scale, v_scale = scales
    result = run_ragged(q, k, v, None, indptr, indptr,
                        options("NONE", -1, None, sm_scale, None, None),
                        MASK_CAUSAL if causal else MASK_NONE, None, v_scale, None, o, None, None,
                        return_lse)
    if not return_lse:
        return out
    stats = softmax_pairs(result[1].reshape(shape), out=lse)
    if dtype_name(query.dtype) in _FP8:
        stats[..., 1] *= 256
    return out, stats


def fmha_v2_prefill_deepseek(query: Tensor, key: Tensor, value: Tensor, out: Tensor, num_heads: int,
                             head_dim: int, seq_len: int, scale_softmax: float,
                             scale_bmm1: float | None = None, scale_bmm2: float | None = None,
                             return_lse: bool = False, lse: Tensor | None = None,
                             scale_bmm1_d: Tensor | None = None,
                             scale_bmm2_d: Tensor | None = None) -> Any:
    """Causal attention of requests of one length.

    Args:
        query: ``[batch_size, seq_len, num_heads, head_dim]``.
        key: as `query`.
        value: ``[batch_size, seq_len, num_heads, head_dim_vo]``.
        out: as `value`; float16, bfloat16 or float32.
        num_heads, head_dim, seq_len: as in the shapes.
        scale_softmax: accepted: probabilities are not of 8 bits here.
        scale_bmm1, scale_bmm2: what q · k and the output are multiplied with; None: 1.
        return_lse: also returns `lse`.
        lse: ``[batch_size, seq_len, num_heads, 2]`` float32: m and s of the logarithm m + log(s) of
            base e; with inputs of 8 bits of m + log(s / 256). Made when None.
        scale_bmm1_d, scale_bmm2_d: ``[1]`` float32: in place of the numbers.

    Returns:
        `out`, or (out, lse).
    """
    return fmha_v2_prefill_sm120(query, key, value, out, num_heads, head_dim, seq_len,
                                 scale_softmax, scale_bmm1, scale_bmm2, True, return_lse, lse,
                                 scale_bmm1_d, scale_bmm2_d)


def fmha_v2_prefill_sm120(query: Tensor, key: Tensor, value: Tensor, out: Tensor, num_heads: int,
                          head_dim: int, seq_len: int, scale_softmax: float,
                          scale_bmm1: float | None = None, scale_bmm2: float | None = None,
                          causal: bool = True, return_lse: bool = False, lse: Tensor | None = None,
                          scale_bmm1_d: Tensor | None = None,
                          scale_bmm2_d: Tensor | None = None) -> Any:
    """fmha_v2_prefill_deepseek(), of all keys where `causal` is False."""
    scales = (number("scale_bmm1", scale_bmm1 if scale_bmm1_d is None else scale_bmm1_d),
              number("scale_bmm2", scale_bmm2 if scale_bmm2_d is None else scale_bmm2_d))
    return _equal_lengths(query, key, value, out, num_heads, head_dim, seq_len, scales, causal,
                          return_lse, lse)
