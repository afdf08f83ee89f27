# SPDX-License-Identifier: Apache-2.0
"""Which neighbouring steps of a pipeline become one."""
from __future__ import annotations

import itertools
from typing import Callable, NamedTuple, Sequence

from .op import Op
from .operators import (
    FusedProbsMinPSampleOp,
    FusedProbsTopKSampleOp,
    FusedProbsTopKTopPSampleOp,
    FusedProbsTopPSampleOp,
    FusedSoftmaxSampleOp,
    FusedTemperatureSoftmaxOp,
    MinPOp,
    ProbsSampleOp,
    ProbsTopKOp,
    SoftmaxOp,
    TemperatureOp,
    TopPOp,
)

#: The neighbouring steps that a rule matched.
Window = Sequence[Op]


class FusionRule(NamedTuple):
    """Replaces neighbouring steps by one.

    Attributes:
        pattern: the classes of the steps, :class:`Op` or the :class:`LogitsProcessor` they came
            from.
        guard: whether to fuse the steps that matched.
        build: the step that takes their place; it must take and give the same types.
        prio: rules of a higher number are tried first, those of equal number longest first.
    """

    pattern: tuple[type, ...]
    guard: Callable[[Window], bool]
    build: Callable[[Window], Op]
    prio: int = 0


def _always(window: Window) -> bool:
    return True


def _merged(window: Window) -> dict:
    """The fixed parameters of all steps."""
    params: dict = {}
    for op in window:
        params.update(getattr(op, "default_params", {}))
    return params


def _rule(pattern: tuple[type, ...], fused: type, prio: int, **fixed) -> FusionRule:
    return FusionRule(pattern, _always, lambda window: fused(**_merged(window), **fixed), prio)


_PARAMETER = {TemperatureOp: "temperature", ProbsTopKOp: "top_k", TopPOp: "top_p", MinPOp: "min_p"}


def _from_logits() -> list[FusionRule]:
    """Temperature, softmax, top-k, top-p, min-p and the draw, any of the filters left out.

    That is the order in which the sampler applies them; another order is not the same thing.
    """
    rules = []
    filters = (ProbsTopKOp, TopPOp, MinPOp)
    for with_temperature, *with_filter in itertools.product((True, False), repeat=4):
        kept = tuple(itertools.compress(filters, with_filter))
        pattern = (*((TemperatureOp,) if with_temperature else ()), SoftmaxOp, *kept, ProbsSampleOp)
        names = tuple(_PARAMETER[op] for op in pattern if op in _PARAMETER)
        rules.append(_rule(pattern, FusedSoftmaxSampleOp, 20, filters=names))
    return rules


def get_default_fusion_rules() -> list[FusionRule]:
    """The rules of every compiled pipeline."""
    return [
        *_from_logits(),
        _rule((ProbsTopKOp, TopPOp, ProbsSampleOp), FusedProbsTopKTopPSampleOp, 10),
        _rule((ProbsTopKOp, ProbsSampleOp), FusedProbsTopKSampleOp, 10),
        _rule((TopPOp, ProbsSampleOp), FusedProbsTopPSampleOp, 10),
        _rule((MinPOp, ProbsSampleOp), FusedProbsMinPSampleOp, 10),
        _rule((TemperatureOp, SoftmaxOp), FusedTemperatureSoftmaxOp, 10),
    ]
