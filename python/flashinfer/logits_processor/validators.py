# SPDX-License-Identifier: Apache-2.0
"""The errors of building a pipeline, and the checks that a list of steps must pass."""
from __future__ import annotations

from typing import Callable, Sequence

from .op import Op
from .operators import LogitsSampleOp, ProbsSampleOp, SoftmaxOp
from .types import TensorType


class LegalizationError(ValueError):
    """A processor stands where it cannot work, or the type of a pipeline's input is not known."""


class CompileError(ValueError):
    """The steps of a pipeline do not fit each other, or a validity check refuses them."""


class FusionError(CompileError):
    """A fusion rule built a step that does not fit in the place of those it matched."""


#: A check of the steps of a pipeline before fusion: raises :class:`CompileError` to refuse them.
ValidityCheck = Callable[[Sequence[Op]], None]


def check_types(ops: Sequence[Op]) -> None:
    """Each step must take what the one before it gives."""
    for before, after in zip(ops, ops[1:]):
        if before.OUT is not after.IN:
            raise CompileError(f"{before!r} gives {before.OUT.name}, but {after!r} after it "
                               f"takes {after.IN.name}")


def check_single_softmax(ops: Sequence[Op]) -> None:
    """Probabilities are made once."""
    if sum(isinstance(op, SoftmaxOp) for op in ops) > 1:
        raise CompileError("Softmax: is there more than once")


def check_sample_is_last(ops: Sequence[Op]) -> None:
    """Nothing works on token ids."""
    for op in ops[:-1]:
        if isinstance(op, (LogitsSampleOp, ProbsSampleOp)) or op.OUT is TensorType.INDICES:
            raise CompileError(f"{op!r}: gives token ids, so it must be the last step")


def get_default_validity_checks() -> list[ValidityCheck]:
    """The checks of every pipeline."""
    return [check_single_softmax, check_sample_is_last, check_types]
