# SPDX-License-Identifier: Apache-2.0
"""The pipeline that users build and call."""
from __future__ import annotations

from typing import Any, Sequence

from .compiler import compile_pipeline
from .fusion_rules import FusionRule
from .legalization import infer_initial_type, legalize_processors
from .op import Op
from .operators import PARAMETERS, is_built_in
from .processors import LogitsProcessor
from .types import TaggedTensor, TensorType
from .validators import LegalizationError, ValidityCheck, check_types


class LogitsPipe:
    """A pipeline of processors from logits or probabilities to what its last one gives.

    Building checks that the processors fit each other, and with ``compile`` fuses neighbours:
    from ``Temperature`` to ``Sample`` with any of the filters between is one pass over the logits.

    >>> pipe = LogitsPipe([Temperature(), Softmax(), TopK(), TopP(), Sample()])
    >>> tokens = pipe(logits, temperature=0.7, top_k=40, top_p=0.9)

    Args:
        processors: at least one.
        compile: fuse; :meth:`compile` does it later.
        input_type: what the pipeline is called with. Needed where the first processor takes both
            logits and probabilities.
        custom_fusion_rules: tried before the default ones of the same priority.
        custom_validity_checks: called with the steps before fusion.

    Raises:
        LegalizationError: a processor cannot work on what reaches it. A ``ValueError``, as the
            next two.
        CompileError: the steps do not fit each other.
        FusionError: a fusion rule built a step that does not fit.
    """

    def __init__(self, processors: Sequence[LogitsProcessor], compile: bool = True,
                 input_type: "TensorType | None" = None,
                 custom_fusion_rules: "Sequence[FusionRule] | None" = None,
                 custom_validity_checks: "Sequence[ValidityCheck] | None" = None) -> None:
        if not processors:
            raise ValueError("processors: is empty, accepted: at least one")
        if input_type is TensorType.INDICES:
            raise LegalizationError("input_type: is INDICES, accepted: LOGITS, PROBS")
        self.processors = list(processors)
        self._initial_type = input_type or infer_initial_type(self.processors)
        self.ops: list[Op] = legalize_processors(self.processors, self._initial_type)
        self.compiled_ops: "list[Op] | None" = None
        if compile:
            self.compile(custom_fusion_rules, custom_validity_checks)
        else:
            check_types(self.ops)

    @property
    def initial_type(self) -> TensorType:
        """What the pipeline is called with."""
        return self._initial_type

    def compile(self, custom_fusion_rules: "Sequence[FusionRule] | None" = None,
                custom_validity_checks: "Sequence[ValidityCheck] | None" = None) -> None:
        """Checks the steps and fuses them; calls after it run the fused ones.

        Raises:
            CompileError: the steps do not fit each other.
        """
        self.compiled_ops = compile_pipeline(self.ops, custom_fusion_rules,
                                             custom_validity_checks)

    def __call__(self, x: Any, **kwargs: Any) -> Any:
        """Runs the pipeline.

        Args:
            x: ``[num_rows, vocab_size]`` float32, float16 or bfloat16, or a :class:`TaggedTensor`
                of it.
            kwargs: ``temperature``, ``top_k``, ``top_p``, ``min_p``, each a number or
                ``[num_rows]``; ``indices``, ``generator``, ``seed``, ``offset``, ``check_nan`` for
                the draw, as in :mod:`flashinfer.sampling`; and those of custom processors.

        Returns:
            What the last processor gives, a tensor of the framework of `x`.

        Raises:
            ValueError: a parameter that a processor needs is missing, or `x` is tagged as another
                type than :attr:`initial_type`.
            TypeError: a parameter that no processor has; not where steps are custom ones.
        """
        ops = self.ops if self.compiled_ops is None else self.compiled_ops
        unknown = [name for name in kwargs if name not in PARAMETERS]
        if unknown and all(is_built_in(op) for op in ops):
            raise TypeError(f"{unknown[0]}: no processor has this parameter, accepted: "
                            f"{', '.join(sorted(PARAMETERS))}")
        if not isinstance(x, TaggedTensor):
            x = TaggedTensor(x, self._initial_type)
        elif x.type is not self._initial_type:
            raise ValueError(f"x: is tagged {x.type.name}, this pipeline takes "
                             f"{self._initial_type.name}")
        for op in ops:
            x = op(x, **kwargs)
        return x.data

    def __repr__(self) -> str:
        def chain(items):
            return "[" + " -> ".join(map(repr, items)) + "]"

        text = f"LogitsPipe({chain(self.processors)}, ops={chain(self.ops)}"
        if self.compiled_ops is not None:
            text += f", compiled_ops={chain(self.compiled_ops)}"
        return text + ")"
