# SPDX-License-Identifier: Apache-2.0
"""The library's functions as torch ops, for torch.compile, torch.export and the like.

Importing this needs torch; the package does it by itself when torch.compile traces a call. Every
op writes into tensors that it is given and returns nothing, so its schema says all there is to
know: the fake implementation has nothing to do, and functionalisation makes the rest.

To add an op, add the line of its exported function to ``signatures.SIGNATURES``.
"""
from __future__ import annotations

import contextlib
import re
import struct
from typing import Any, Iterator

import torch

from . import _compiling
from ._binding import lib, made_objects
from .signatures import SIGNATURES

_SCHEMA_TYPES = {"int": "SymInt", "Plan": "int", "bytes": "str"}


#: Exported functions that are no ops: they take no tensors, or read them on the host.
HOST_FUNCTIONS = frozenset("""
    arch_of assume_values_are_stored attention_begin_plan attention_plan attention_plan_change
    attention_plan_make attention_plan_on_device attention_replan_on_device attention_use_variant
    attention_variant_make attention_workspace_bytes block_scale_bytes borrowed_tensor cascade_plan
    cascade_plan_make check_argument clear_kernel_cache configuration explain mla_plan mla_plan_make
    mla_plan_on_device mla_replan_on_device num_threads segment_packbits_bytes set_num_threads
    version
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
