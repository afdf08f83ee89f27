# SPDX-License-Identifier: Apache-2.0
"""Attention of one request, over keys that lie one after another."""
from __future__ import annotations

import functools
from typing import Any

from .._binding import lib
from .._errors import BackendSupportedError
from .._tensors import Tensor, dtype_name
from .arguments import check_mask, is_per_head, number, refuse
from .planned import make_lse, make_out, options
from .record import (
    MASK_CAUSAL,
    MASK_CUSTOM,
    MASK_NONE,
    PROBLEM,
    backend_name,
    layout_code,
    pack,
)
from .variant import Variant

_records = {}  # arguments of _record() -> record


def _record(*key):
    record = _records.get(key)
    if record is None:
        if len(_records) >= 1000:  # scales that are different each time
            _records.clear()
        record = _records[key] = _make_record(*key)
    return record


def _make_record(kv_layout, mask, backend, pos_encoding_mode, window_left, logits_soft_cap,
                 sm_scale, rope_scale, rope_theta):
    o = options(pos_encoding_mode, window_left, logits_soft_cap, sm_scale, rope_scale, rope_theta)
    # What tensors say, dtypes and sizes, is not read.
    return pack(PROBLEM, (0, 0, 0, 1, 1, 8, 8, 1, layout_code(kv_layout), mask, o["window_left"],
                          o["pos_encoding"], 0, o["sm_scale"], o["logits_soft_cap"],
                          o["rope_scale"], o["rope_theta"]), backend_name(backend))


def _plain(value):
    """A scale as something hashable by value."""
    return value if value is None else float(value)


def _run(record, q, k, v, out, return_lse, custom_mask, scales, per_head):
    lse = make_lse(q) if return_lse else None
    if all(t is None for t in per_head) and scales == [1.0, 1.0, 1.0]:
        lib.single_attention(record, q, k, v, out, lse, custom_mask)
    else:
        lib.single_attention_with(record, q, k, v, out, lse, custom_mask, scales,
                                  [*per_head, None, None, None])
    return (out, lse) if return_lse else out


def single_decode_with_kv_cache(q: Tensor, k: Tensor, v: Tensor, kv_layout: str = "NHD",
                                pos_encoding_mode: str = "NONE", use_tensor_cores: bool = False,
                                q_scale: float | Tensor | None = None,
                                k_scale: float | Tensor | None = None,
                                v_scale: float | Tensor | None = None, window_left: int = -1,
                                logits_soft_cap: float | None = None,
                                sm_scale: float | Tensor | None = None,
                                rope_scale: float | None = None, rope_theta: float | None = None,
                                return_lse: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of one token, the last one, over all keys.

    Args:
        q: ``[num_qo_heads, head_dim]``; float32, float16, bfloat16, float8_e4m3fn, float8_e5m2.
        k, v: ``[kv_len, num_kv_heads, head_dim]``, or HND ``[num_kv_heads, kv_len, head_dim]``; of
            these dtypes or int8. Any strides but for a dense last dimension.
        kv_layout: ``"NHD"`` or ``"HND"``.
        pos_encoding_mode: ``"NONE"``, ``"ROPE_LLAMA"`` or ``"ALIBI"``.
        use_tensor_cores: accepted: the fastest kernel for the problem is taken either way.
        q_scale, k_scale, v_scale: what stored values are multiplied with: numbers.
        window_left: keys left of the token that it sees; -1: all.
        logits_soft_cap: scores become cap · tanh(score / cap); None or 0: none.
        sm_scale: 1 / sqrt(head_dim) when None.
        rope_scale, rope_theta: 1 and 10000 when None.
        return_lse: also returns ``[num_qo_heads]`` float32, base-2 logarithms.

    Returns:
        ``[num_qo_heads, head_dim]`` of q's dtype, or that and lse.

    Raises:
        ValueError: a shape, dtype or number is wrong; names the argument.
        NotImplementedError: no backend takes the problem; the message has each one's reason.
    """
    record = _record(kv_layout, MASK_NONE, "auto", pos_encoding_mode,
                     window_left, _plain(logits_soft_cap), _plain(sm_scale), _plain(rope_scale),
                     _plain(rope_theta))
    if len(q.shape) != 2:
        raise ValueError(f"q: has shape {tuple(q.shape)}, expected [num_qo_heads, head_dim]")
    out = make_out(q, v.shape[-1])
    scales = [number("q_scale", q_scale), number("k_scale", k_scale), number("v_scale", v_scale)]
    return _run(record, q, k, v, out, return_lse, None, scales, [None] * 3)


def single_prefill_with_kv_cache(q: Tensor, k: Tensor, v: Tensor,
                                 scale_q: float | Tensor | None = None,
                                 scale_k: float | Tensor | None = None,
                                 scale_v: float | Tensor | None = None, o_dtype: Any = None,
                                 custom_mask: Tensor | None = None,
                                 packed_custom_mask: Tensor | None = None, causal: bool = False,
                                 kv_layout: str = "NHD", pos_encoding_mode: str = "NONE",
                                 use_fp16_qk_reduction: bool = False,
                                 sm_scale: float | Tensor | None = None, window_left: int = -1,
                                 logits_soft_cap: float | None = None,
                                 rope_scale: float | None = None, rope_theta: float | None = None,
                                 backend: str = "auto", return_lse: bool = False,
                                 kv_cache_sf: tuple[Tensor, Tensor] | None = None,
                                 k_scale: float | Tensor | None = None,
                                 v_scale: float | Tensor | None = None) -> Any:
    """Attention of a request's newest tokens over all its keys, which end with those of q.

    Args:
        q: ``[q_len, num_qo_heads, head_dim_qk]``; dtypes as in single_decode_with_kv_cache().
        k: ``[kv_len, num_kv_heads, head_dim_qk]``, or HND ``[num_kv_heads, kv_len, head_dim_qk]``.
        v: likewise of head_dim_vo.
        scale_q, scale_k, scale_v: of quantised inputs, one per head: ``[num_qo_heads]`` and
            ``[num_kv_heads]`` float32.
        o_dtype: of the output; q's when None.
        custom_mask: ``[q_len, kv_len]`` bool, true where a query sees a key; replaces `causal`.
        packed_custom_mask: the same in bits, lowest first: ``[ceil(q_len · kv_len / 8)]`` uint8.
        causal: query i sees key j iff j <= kv_len - q_len + i. With q_len > kv_len the first rows
            see nothing: 0, and lse -inf.
        use_fp16_qk_reduction: accepted: scores are always summed in float32.
        window_left: keys left of its own position that a query sees, besides the mask; -1: all.
        backend: ``"auto"``, ``"fa2"`` and ``"fa3"`` mean the fastest here; or one of ours.
        return_lse: also returns ``[q_len, num_qo_heads]`` float32, base-2 logarithms.
        kv_cache_sf: None; raises NotImplementedError.
        k_scale, v_scale: numbers that stored keys and values are multiplied with.

    Returns:
        ``[q_len, num_qo_heads, head_dim_vo]``, or that and lse.

    Raises:
        ValueError: a shape, dtype or number is wrong; names the argument.
        NotImplementedError: no backend takes the problem; the message has each one's reason.
    """
    refuse(kv_cache_sf=kv_cache_sf)
    mask = MASK_CAUSAL if causal else MASK_NONE
    given_mask = None
    if packed_custom_mask is not None:
        given_mask = check_mask("packed_custom_mask", packed_custom_mask, "uint8")
        mask = MASK_CUSTOM
    elif custom_mask is not None:
        given_mask = check_mask("custom_mask", custom_mask, "bool")
        mask = MASK_CUSTOM
    record = _record(kv_layout, mask, backend, pos_encoding_mode,
                     window_left, _plain(logits_soft_cap), _plain(sm_scale), _plain(rope_scale),
                     _plain(rope_theta))
    if len(q.shape) != 3:
        raise ValueError(f"q: has shape {tuple(q.shape)}, expected "
                         "[q_len, num_qo_heads, head_dim]")
    out = make_out(q, v.shape[-1], None if o_dtype is None else dtype_name(o_dtype))
    per_head = [s if is_per_head(s) else None for s in (scale_q, scale_k, scale_v)]
    scales = [1.0 if p is not None else number(name, s) for p, name, s in
              zip(per_head, ("scale_q", "scale_k", "scale_v"), (scale_q, scale_k, scale_v))]
    scales[1] *= number("k_scale", k_scale)
    scales[2] *= number("v_scale", v_scale)
    return _run(record, q, k, v, out, return_lse, given_mask, scales, per_head)


single_prefill_with_kv_cache_return_lse = functools.partial(single_prefill_with_kv_cache,
                                                            return_lse=True)


def _run_variant(variant, q, k, v, args, kv_layout, mask, window_left, return_lse):
    if not isinstance(variant, Variant) or variant.is_sinks:
        raise TypeError(f"jit_module: is {variant!r}, expected what build_and_load() of a "
                        "gen_customize_single_..._module() returned")
    record = _record(kv_layout, mask, "auto", "NONE", window_left, None, None, None, None)
    out = make_out(q, v.shape[-1])
    lse = make_lse(q) if return_lse else None
    lib.single_attention_variant(record, variant.made, q, k, v, out, lse, *variant.values(args))
    return (out, lse) if return_lse else out


def single_decode_with_kv_cache_with_jit_module(
        jit_module: Any, q: Tensor, k: Tensor, v: Tensor, *args: Any, kv_layout: str = "NHD",
        window_left: int = -1, return_lse: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """single_decode_with_kv_cache() with a variant, on a CUDA device.

    Args:
        jit_module: what ``gen_customize_single_decode_module(…).build_and_load()`` returned.
        args: the variant's tensors, then its scalars.

    The others, and what is returned, are as there.
    """
    if len(q.shape) != 2:
        raise ValueError(f"q: has shape {tuple(q.shape)}, expected [num_qo_heads, head_dim]")
    return _run_variant(jit_module, q, k, v, args, kv_layout, MASK_NONE, window_left, return_lse)


def single_prefill_with_kv_cache_with_jit_module(
        jit_module: Any, q: Tensor, k: Tensor, v: Tensor, *args: Any, kv_layout: str = "NHD",
        mask_mode: int = 0, window_left: int = -1,
        return_lse: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """single_prefill_with_kv_cache() with a variant, on a CUDA device.

    Args:
        jit_module: what ``gen_customize_single_prefill_module(…).build_and_load()`` returned.
        args: the variant's tensors, then its scalars.
        mask_mode: a MaskMode or its value: NON_CAUSAL, CAUSAL, or CUSTOM, where the variant alone
            says what a query sees. MULTIITEMSCORING raises NotImplementedError.

    The others, and what is returned, are as there.
    """
    mode = getattr(mask_mode, "value", mask_mode)
    if mode not in (0, 1, 2):
        raise BackendSupportedError(f"mask_mode: is {mask_mode}, accepted with a variant: "
                                    "NON_CAUSAL, CAUSAL, CUSTOM")
    if len(q.shape) != 3:
        raise ValueError(f"q: has shape {tuple(q.shape)}, expected "
                         "[q_len, num_qo_heads, head_dim]")
    return _run_variant(jit_module, q, k, v, args, kv_layout,
                        MASK_CAUSAL if mode == 1 else MASK_NONE, window_left, return_lse)
