# SPDX-License-Identifier: Apache-2.0
"""The processors that a pipeline is written in."""
from __future__ import annotations

import abc
from typing import Any

from .op import Op
from .operators import (
    LogitsSampleOp,
    LogitsTopKOp,
    MinPOp,
    ProbsSampleOp,
    ProbsTopKOp,
    SoftmaxOp,
    TemperatureOp,
    TopPOp,
)
from .types import TensorType
from .validators import LegalizationError

LOGITS, PROBS = TensorType.LOGITS, TensorType.PROBS


class LogitsProcessor(abc.ABC):
    """A step as a user says it, without saying yet whether it works on logits or probabilities.

    A subclass defines :meth:`legalize`. ``INPUTS`` are the types it takes; left as ``None``,
    a pipeline that starts with it needs an ``input_type`` unless legalising tells.

    Args:
        params: fixed parameters; most can also be given when the pipeline is called.
    """

    INPUTS: "tuple[TensorType, ...] | None" = None

    def __init__(self, **params: Any) -> None:
        self.params = params

    @abc.abstractmethod
    def legalize(self, input_type: TensorType) -> list[Op]:
        """The steps that do this on ``input_type``.

        Raises:
            LegalizationError: this processor cannot work on ``input_type``.
        """

    def __repr__(self) -> str:
        return type(self).__name__


class _TableProcessor(LogitsProcessor):
    """A processor that is one operator for each type it takes."""

    OPS: "dict[TensorType, type[Op]]" = {}

    def legalize(self, input_type: TensorType) -> list[Op]:
        op = self.OPS.get(input_type)
        if op is None:
            accepted = ", ".join(t.name for t in self.OPS)
            raise LegalizationError(
                f"{self!r}: its input is {input_type.name}, accepted: {accepted}")
        return [op(**self.params)]


class Temperature(_TableProcessor):
    """Divides logits by the ``temperature`` of the call: a number or ``[num_rows]``, float."""

    INPUTS = (LOGITS,)
    OPS = {LOGITS: TemperatureOp}


class Softmax(_TableProcessor):
    """Makes probabilities (float32) of logits.

    Args:
        enable_pdl: accepted; launches overlap where the GPU allows it.
    """

    INPUTS = (LOGITS,)
    OPS = {LOGITS: SoftmaxOp}

    def __init__(self, enable_pdl: "bool | None" = None, **params: Any) -> None:
        super().__init__(enable_pdl=enable_pdl, **params)


class TopK(_TableProcessor):
    """Keeps the ``top_k`` of the call: a number or ``[num_rows]``, integers; 0 keeps all.

    Args:
        joint_topk_topp: a :class:`TopP` that follows looks at the original probabilities instead
            of those renormalised after top-k. Takes effect when the steps are fused.
    """

    INPUTS = (LOGITS, PROBS)
    OPS = {LOGITS: LogitsTopKOp, PROBS: ProbsTopKOp}

    def __init__(self, joint_topk_topp: bool = False, **params: Any) -> None:
        super().__init__(joint_topk_topp=joint_topk_topp, **params)


class TopP(_TableProcessor):
    """Keeps the nucleus of the ``top_p`` of the call: a number or ``[num_rows]``, in 0 to 1."""

    INPUTS = (PROBS,)
    OPS = {PROBS: TopPOp}


class MinP(_TableProcessor):
    """Keeps what has at least ``min_p`` times the largest probability.

    ``min_p`` of the call is a number or ``[num_rows]``, in 0 to 1.
    """

    INPUTS = (PROBS,)
    OPS = {PROBS: MinPOp}


class Sample(_TableProcessor):
    """Draws a token per row: int32 ``[num_rows]``, or as the ``indices`` of the call.

    Args:
        deterministic: accepted; a draw is always repeatable here.
    """

    INPUTS = (LOGITS, PROBS)
    OPS = {LOGITS: LogitsSampleOp, PROBS: ProbsSampleOp}

    def __init__(self, deterministic: bool = True, **params: Any) -> None:
        super().__init__(deterministic=deterministic, **params)
