# SPDX-License-Identifier: Apache-2.0
"""From steps to fewer steps: checks, then fusion."""
from __future__ import annotations

from typing import Sequence

from .fusion_rules import FusionRule, get_default_fusion_rules
from .op import Op
from .validators import FusionError, ValidityCheck, check_types, get_default_validity_checks


class Compiler:
    """Checks and fuses lists of steps by its rules; starts with the default ones."""

    def __init__(self) -> None:
        self.fusion_rules: list[FusionRule] = get_default_fusion_rules()
        self.validity_checks: list[ValidityCheck] = get_default_validity_checks()

    def register_fusion_rule(self, rule: FusionRule) -> None:
        """Adds a rule; of equal priority and length, one added later is tried first."""
        self.fusion_rules.insert(0, rule)

    def register_validity_check(self, check: ValidityCheck) -> None:
        """Adds a check, called with the steps before fusion."""
        self.validity_checks.append(check)

    def compile(self, ops: Sequence[Op]) -> list[Op]:
        """The steps to run instead of ``ops``.

        Raises:
            CompileError: a check refuses ``ops``.
            FusionError: a rule built a step that does not fit.
        """
        for check in self.validity_checks:
            check(ops)
        fused = self._fuse(list(ops))
        check_types(fused)
        return fused

    def _fuse(self, ops: list[Op]) -> list[Op]:
        rules = sorted(self.fusion_rules, key=lambda r: (-r.prio, -len(r.pattern)))
        place = 0
        while place < len(ops):
            for rule in rules:
                window = ops[place:place + len(rule.pattern)]
                if not _matches(window, rule.pattern) or not rule.guard(window):
                    continue
                step = rule.build(window)
                _check_step(step, window)
                ops[place:place + len(window)] = [step]
                # The new step may be the end of a longer pattern.
                longest = max(len(r.pattern) for r in rules)
                place = max(place - longest, -1)
                break
            place += 1
        return ops


def _matches(window: Sequence[Op], pattern: tuple[type, ...]) -> bool:
    if not pattern or len(window) != len(pattern):
        return False
    return all(isinstance(op, wanted) or getattr(op, "processor_type", None) is wanted
               for op, wanted in zip(window, pattern))


def _check_step(step: Op, window: Sequence[Op]) -> None:
    if not isinstance(step, Op):
        raise FusionError(f"build: gave a {type(step).__name__}, accepted: Op")
    first, last = window[0], window[-1]
    if (step.IN, step.OUT) != (first.IN, last.OUT):
        raise FusionError(
            f"{step!r}: is {step.IN.name} to {step.OUT.name}, but stands for "
            f"{' -> '.join(map(repr, window))}, which is {first.IN.name} to {last.OUT.name}")


def compile_pipeline(ops: Sequence[Op], custom_fusion_rules: "Sequence[FusionRule] | None" = None,
                     custom_validity_checks: "Sequence[ValidityCheck] | None" = None) -> list[Op]:
    """:meth:`Compiler.compile` with more rules and checks than the default ones."""
    compiler = Compiler()
    for rule in custom_fusion_rules or ():
        compiler.register_fusion_rule(rule)
    for check in custom_validity_checks or ():
        compiler.register_validity_check(check)
    return compiler.compile(ops)
