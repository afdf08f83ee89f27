# SPDX-License-Identifier: Apache-2.0
"""From processors to steps: which operator a processor is depends on what reaches it."""
from __future__ import annotations

from typing import Sequence

from .op import Op
from .processors import LogitsProcessor
from .types import TensorType
from .validators import LegalizationError


def infer_initial_type(processors: Sequence[LogitsProcessor]) -> TensorType:
    """What the first processor takes.

    Raises:
        LegalizationError: it takes more than one type.
    """
    first = processors[0]
    inputs = first.INPUTS
    if inputs is None:
        inputs = tuple(t for t in (TensorType.LOGITS, TensorType.PROBS) if _takes(first, t))
    if len(inputs) == 1:
        return inputs[0]
    accepted = " or ".join(f"TensorType.{t.name}" for t in inputs) or "no type at all"
    raise LegalizationError(
        f"input_type: is not given, and the first processor, {first!r}, takes {accepted}")


def _takes(processor: LogitsProcessor, input_type: TensorType) -> bool:
    try:
        ops = processor.legalize(input_type)
    except LegalizationError:
        return False
    return bool(ops) and ops[0].IN is input_type


def legalize_processors(processors: Sequence[LogitsProcessor],
                        initial_type: TensorType) -> list[Op]:
    """The steps of all processors, each remembering the processor it came from.

    Raises:
        LegalizationError: a processor cannot work on what reaches it.
    """
    ops: list[Op] = []
    current = initial_type
    for processor in processors:
        if not isinstance(processor, LogitsProcessor):
            raise LegalizationError(
                f"processors: {processor!r} is a {type(processor).__name__}, accepted: "
                "LogitsProcessor")
        if current is TensorType.INDICES:
            raise LegalizationError(f"{processor!r}: comes after the tokens were drawn")
        steps = processor.legalize(current)
        if not steps:
            raise LegalizationError(f"{processor!r}: legalize() gave no step")
        for step in steps:
            step.processor_type = type(processor)  # type: ignore[attr-defined]
        ops += steps
        current = steps[-1].OUT
    return ops
