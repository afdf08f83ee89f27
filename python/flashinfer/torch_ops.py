# SPDX-License-Identifier: Apache-2.0
"""The library's functions as torch ops, for torch.compile, torch.export and the like.

Importing this needs torch; the package does it by itself when torch.compile traces a call. Every
op writes into tensors that it is given and returns nothing, so its schema says all there is to
know: the fake implementation has nothing to do, and functionalisation makes the rest.

To add an op, add the line of its exported function to ``SIGNATURES``. The types are those of torch
schemas, and

``Tensor!``, ``Tensor!?``
    written to.
``Row[int]``, ``Row[float]``
    a number or a tensor with one per row; two arguments of the op, of which one is not used.
``Plan``
    an object that the library made; the op takes its ``id()``, so that a graph which holds one
    does not outlive its process.
``bytes``
    a record, packed by :func:`pack`; the op takes it as text, a letter for each half of a byte.
"""
from __future__ import annotations

import contextlib
import re
import struct
from typing import Any, Iterator

import torch

from . import _compiling
from ._binding import lib, made_objects

SIGNATURES = """
rmsnorm(Tensor x, Tensor weight, Tensor! out, float eps)
rmsnorm_quant(Tensor! out, Tensor x, Tensor weight, float scale, Tensor? scale_tensor, float eps)
gemma_rmsnorm(Tensor x, Tensor weight, Tensor! out, float eps)
fused_add_rmsnorm(Tensor! x, Tensor! residual, Tensor weight, float eps)
fused_add_rmsnorm_quant(Tensor! out, Tensor x, Tensor! residual, Tensor weight, float scale,
    Tensor? scale_tensor, float eps)
gemma_fused_add_rmsnorm(Tensor! x, Tensor! residual, Tensor weight, float eps)
layernorm(Tensor x, Tensor weight, Tensor? bias, Tensor! out, float eps)
layernorm_quant(Tensor! out, Tensor x, Tensor weight, Tensor? bias, float scale,
    Tensor? scale_tensor, float eps)

silu_and_mul(Tensor x, Tensor! out)
gelu_and_mul(Tensor x, Tensor! out)
gelu_tanh_and_mul(Tensor x, Tensor! out)

apply_rope(Tensor q, Tensor k, Tensor pos_ids, Tensor! q_out, Tensor! k_out, int rotary_dim,
    bool interleave, float rope_scale, float rope_theta)
apply_rope_by_offsets(Tensor q, Tensor k, Tensor indptr, Tensor offsets, Tensor! q_out,
    Tensor! k_out, int rotary_dim, bool interleave, float rope_scale, float rope_theta)
apply_llama31_rope(Tensor q, Tensor k, Tensor pos_ids, Tensor! q_out, Tensor! k_out,
    int rotary_dim, bool interleave, float rope_scale, float rope_theta, float low_freq_factor,
    float high_freq_factor, float old_context_len)
apply_llama31_rope_by_offsets(Tensor q, Tensor k, Tensor indptr, Tensor offsets, Tensor! q_out,
    Tensor! k_out, int rotary_dim, bool interleave, float rope_scale, float rope_theta,
    float low_freq_factor, float high_freq_factor, float old_context_len)
apply_rope_with_cos_sin_cache(Tensor q, Tensor k, Tensor positions, Tensor! q_out, Tensor! k_out,
    int head_size, Tensor cos_sin_cache, bool is_neox)
rope_quantize(Tensor q_rope, Tensor k_rope, Tensor? q_nope, Tensor? k_nope, Tensor! q_rope_out,
    Tensor! k_rope_out, Tensor!? q_nope_out, Tensor!? k_nope_out, Tensor pos_ids,
    Tensor cos_sin_cache, bool is_neox, float quant_scale_q, float quant_scale_kv)

append_paged_kv_cache(Tensor k, Tensor v, Tensor batch_indices, Tensor positions, Tensor! k_cache,
    Tensor! v_cache, Tensor indices, Tensor indptr, Tensor last_page_len, bool is_hnd)
append_paged_mla_kv_cache(Tensor ckv, Tensor kpe, Tensor batch_indices, Tensor positions,
    Tensor! ckv_cache, Tensor! kpe_cache, Tensor indices, Tensor indptr, Tensor last_page_len)
get_batch_indices_positions(Tensor append_indptr, Tensor seq_lens, Tensor! batch_indices,
    Tensor! positions)
get_seq_lens(Tensor indptr, Tensor last_page_len, int page_size, Tensor! seq_lens)

matmul(Tensor a, Tensor b, Tensor! out, float scale, Tensor? a_scale, Tensor? b_scale)
segment_gemm(Tensor x, Tensor weights, bool is_transposed, Tensor indptr, Tensor? weight_indices,
    Tensor! out)
grouped_gemm(Tensor a, Tensor b, Tensor indptr, Tensor! out, Tensor? a_scale, Tensor? b_scale,
    int rows_per_scale, int n_per_scale, int k_per_scale)
grouped_gemm_by_row(Tensor a, Tensor b, Tensor row_groups, Tensor! out, Tensor? a_scale,
    Tensor? b_scale, int rows_per_scale, int n_per_scale, int k_per_scale)
grouped_gemm_masked(Tensor a, Tensor b, Tensor num_rows, Tensor! out, Tensor? a_scale,
    Tensor? b_scale, int rows_per_scale, int n_per_scale, int k_per_scale)

merge_state(Tensor v_a, Tensor s_a, Tensor v_b, Tensor s_b, Tensor! v_merged, Tensor! s_merged)
merge_state_in_place(Tensor! v, Tensor! s, Tensor v_other, Tensor s_other, Tensor? mask)
merge_states(Tensor v, Tensor s, Tensor! v_merged, Tensor! s_merged)
variable_length_merge_states(Tensor v, Tensor s, Tensor indptr, Tensor! v_merged, Tensor! s_merged)
single_attention(bytes record, Tensor q, Tensor k, Tensor v, Tensor! out, Tensor!? lse,
    Tensor? custom_mask)
single_attention_with(bytes record, Tensor q, Tensor k, Tensor v, Tensor! out, Tensor!? lse,
    Tensor? custom_mask, float[] scales, Tensor?[] extras)
attention_run(Plan plan, Tensor q, Tensor k, Tensor? v, Tensor! out, Tensor!? lse, float q_scale,
    float k_scale, float v_scale)
attention_run_with(Plan plan, Tensor q, Tensor k, Tensor? v, Tensor! out, Tensor!? lse,
    float[] scales, Tensor?[] tensors)
cascade_run(Plan plan, Tensor q, Tensor k, Tensor? v, Tensor! out, Tensor!? lse)
mla_run(Plan plan, Tensor q_nope, Tensor? q_pe, Tensor ckv, Tensor? kpe, Tensor! out, Tensor!? lse,
    float ckv_scale, float kpe_scale)
mla_run_scaled(Plan plan, Tensor q_nope, Tensor? q_pe, Tensor ckv, Tensor? kpe, Tensor! out,
    Tensor!? lse, Tensor ckv_scales, float kpe_scale)

packbits(Tensor x, Tensor! packed, bool is_little)
segment_packbits(Tensor x, Tensor indptr, Tensor! packed, Tensor packed_indptr, bool is_little)
quantize(Tensor x, Tensor! q, Tensor! scales, bool dynamic, float min_scale, bool power_of_two)
dequantize(Tensor q, Tensor scales, Tensor! out)
quantize_blocks(Tensor x, Tensor! q, Tensor! block_scales, str format, int layout,
    float global_scale, Tensor? global_scale_tensor)
dequantize_blocks(Tensor q, Tensor block_scales, Tensor! out, str format, int layout,
    float global_scale, Tensor? global_scale_tensor)
swizzle_block_scales(Tensor linear, Tensor! swizzled, int layout)

softmax(Tensor logits, Tensor! probs, Row[float] temperature)
sample_from_logits(Tensor logits, Tensor! tokens, Tensor!? valid, Tensor? indices,
    Row[float] temperature, Row[int] top_k, Row[float] top_p, Row[float] min_p, bool joint,
    Row[int] seed, Row[int] offset)
sample_from_probs(Tensor probs, Tensor! tokens, Tensor!? valid, Tensor? indices, Row[int] top_k,
    Row[float] top_p, Row[float] min_p, bool joint, Row[int] seed, Row[int] offset)
top_k_renorm_probs(Tensor probs, Tensor! out, Row[int] top_k)
top_p_renorm_probs(Tensor probs, Tensor! out, Row[float] top_p)
top_k_mask_logits(Tensor logits, Tensor! out, Row[int] top_k)
chain_speculative_sampling(Tensor draft_probs, Tensor draft_tokens, Tensor target_probs,
    Tensor! tokens, Tensor!? num_accepted, Tensor!? num_emitted, Row[int] seed, Row[int] offset)

top_k(Tensor input, Tensor!? values, Tensor! indices, bool sorted, bool highest_index,
    Tensor? row_starts, Tensor? lengths)
top_k_page_table_transform(Tensor input, Tensor page_table, Tensor? row_to_request, int page_size,
    Tensor! out, bool highest_index, Tensor? lengths)
top_k_ragged_transform(Tensor input, Tensor offsets, Tensor! out, bool highest_index,
    Tensor? row_starts, Tensor? lengths)
"""

_SCHEMA_TYPES = {"int": "SymInt", "Plan": "int", "bytes": "str"}


#: Exported functions that are no ops: they take no tensors, or read them on the host.
HOST_FUNCTIONS = frozenset("""
    attention_plan attention_plan_change attention_plan_make attention_workspace_bytes
    block_scale_bytes borrowed_tensor cascade_plan cascade_plan_make clear_kernel_cache
    configuration explain mla_plan mla_plan_make num_threads segment_packbits_bytes
    set_num_threads version
""".split())


def block_scale_bytes(layout: int, num_rows: int, num_blocks: int) -> int:
    """The library's function of that name, for sizes that torch.compile does not know yet."""
    if layout == 2:  # linear
        return num_rows * num_blocks
    tile_rows = 128 if layout == 0 else 8
    return (num_rows + tile_rows - 1) // tile_rows * tile_rows * ((num_blocks + 3) // 4 * 4)


def _schema_arguments(kind: str, name: str, letter: str) -> list[str]:
    """The arguments of the op for one of the function; `letter` is free to name an alias."""
    if kind.startswith("Tensor!"):
        return [f"Tensor({letter}!){kind[len('Tensor!'):]} {name}"]
    if kind.startswith("Row["):
        return [f"{_schema_type(kind[4:-1])} {name}", f"Tensor? {name}_rows"]
    return [f"{_schema_type(kind)} {name}"]


def _schema_type(kind: str) -> str:
    return _SCHEMA_TYPES.get(kind, kind)


def _parse(signature: str) -> tuple[str, tuple[str, ...], str]:
    """The name, the kinds of the arguments and the op's schema."""
    name, arguments = re.fullmatch(r"(\w+)\((.*)\)", signature, re.DOTALL).groups()
    pairs = [argument.split() for argument in arguments.split(",")]
    schema = []
    for letter, (kind, argument) in zip("abcdefghijklmnopqrstuvwxyz", pairs):
        schema += _schema_arguments(kind, argument, letter)
    return name, tuple(kind for kind, _ in pairs), f"{name}({', '.join(schema)}) -> ()"


def _implementation(name: str, kinds: tuple[str, ...]) -> Any:
    """What runs when the op is called: the function, its arguments put together again."""

    def run(*flat: Any) -> None:
        arguments, place = [], 0
        for kind in kinds:
            value = flat[place]
            place += 1
            if kind.startswith("Row["):
                value = value if flat[place] is None else flat[place]
                place += 1
            elif kind == "Plan":
                value = made_objects[value]
            elif kind == "bytes":
                value = bytes.fromhex(value)
            arguments.append(value)
        lib.load(name).eager(*arguments)

    return run


def _nothing(*arguments: Any) -> None:
    """The fake implementation of an op that only writes into its arguments."""


_library = torch.library.Library("flashinfer", "FRAGMENT")  # others may have ops of that name
_kinds: dict[str, tuple[str, ...]] = {}
_ops: dict[str, Any] = {}


def _register(signature: str) -> None:
    name, kinds, schema = _parse(signature)
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, _implementation(name, kinds), "CompositeExplicitAutograd")
    torch.library.register_fake(f"flashinfer::{name}", _nothing, lib=_library)
    _kinds[name] = kinds
    _ops[name] = getattr(torch.ops.flashinfer, name).default


for _signature in re.findall(r"\w+\([^)]*\)", SIGNATURES):
    _register(_signature)


def ops() -> dict[str, Any]:
    """The op of every exported function that has one: ``torch.ops.flashinfer.<name>.default``."""
    return dict(_ops)


@torch.compiler.assume_constant_result
def pack(layout: struct.Struct, values: tuple, backend: str) -> bytes:
    """A record of numbers that torch.compile knows, made while it traces."""
    return layout.pack(*values) + backend.encode()


@torch.compiler.assume_constant_result
def _as_text(record: bytes) -> str:
    return record.hex()


def call(name: str, arguments: tuple) -> Any:
    """Calls the op with the arguments of the function. Traced by torch.compile."""
    if name == "block_scale_bytes":
        return block_scale_bytes(*arguments)
    if name not in _kinds:
        raise NotImplementedError(f"{name}: reads its input on the host, so it is no torch op")
    flat = []
    for kind, value in zip(_kinds[name], arguments):
        if kind.startswith("Row["):
            is_tensor = isinstance(value, torch.Tensor)
            flat += [0 if is_tensor else value, value if is_tensor else None]
        elif kind == "Plan":
            flat.append(id(value))
        elif kind == "bytes":
            flat.append(_as_text(value))
        else:
            flat.append(value)
    _ops[name](*flat)


@contextlib.contextmanager
def as_torch_ops() -> Iterator[None]:
    """Calls within become torch ops, of all threads, as they do under torch.compile.

    For tracers that torch.compile knows nothing of (``make_fx``, ``FakeTensorMode``) and for
    profilers that show ops.
    """
    before = _compiling.ask
    _compiling.ask = _compiling._always
    try:
        yield
    finally:
        _compiling.ask = before
