# SPDX-License-Identifier: Apache-2.0
"""The steps that processors are legalised to, and the fused ones that a compiled pipeline runs."""
from __future__ import annotations

from typing import Any

from .. import sampling
from .._sampling_arguments import per_row, sample_filtered
from .._tensors import as_dtype, framework_of
from .op import Op, ParameterizedOp
from .types import TaggedTensor, TensorType

LOGITS, PROBS, INDICES = TensorType.LOGITS, TensorType.PROBS, TensorType.INDICES
_RANDOM = ("indices", "generator", "seed", "offset", "check_nan")
#: What the call of a pipeline may give to the steps here.
PARAMETERS = frozenset((*_RANDOM, "temperature", "top_k", "top_p", "min_p", "enable_pdl",
                        "deterministic", "joint_topk_topp"))


def is_built_in(op: Op) -> bool:
    """Whether a step is one of this module, which takes PARAMETERS alone."""
    return type(op).__module__ == __name__


def _column(name: str, value: Any, rows: Any) -> Any:
    """A parameter that divides or multiplies `rows`: a number, or ``[num_rows, 1]``."""
    value = per_row(name, value, "float32", rows, None, by_source=True)
    return value if isinstance(value, float) else value[:, None]


def _scaled(logits: Any, temperature: Any) -> Any:
    """Logits by temperature; 0 where that is 0, -inf kept."""
    framework = framework_of(logits)
    temperature = _column("temperature", temperature, logits)
    is_masked = logits == -float("inf")
    if isinstance(temperature, float):
        if temperature < 0:
            raise ValueError(f"temperature: is {temperature}, accepted: 0 or more")
        if temperature == 0:
            return framework.where(is_masked, logits, framework.zeros_like(logits))
        return logits / temperature
    is_zero = temperature == 0
    scaled = logits / framework.where(is_zero, framework.ones_like(temperature), temperature)
    return framework.where(is_zero & ~is_masked, framework.zeros_like(scaled), scaled)


def _min_p_renormed(probs: Any, min_p: Any) -> Any:
    """Probabilities of at least min_p times the row's largest, divided by their sum."""
    framework = framework_of(probs)
    probs = as_dtype(probs, "float32")
    largest = framework.amax(probs, -1)[:, None]
    is_kept = probs >= _column("min_p", min_p, probs) * largest
    kept = framework.where(is_kept, probs, framework.zeros_like(probs))
    return kept / kept.sum(-1)[:, None]


class TemperatureOp(ParameterizedOp):
    """Logits divided by ``temperature`` (a number or ``[num_rows]``).

    A row of temperature 0 becomes 0, its -inf excepted, which softmax makes uniform.
    """

    IN, OUT = LOGITS, LOGITS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        logits = self._take(tensor)
        return self._give(_scaled(logits, self._param("temperature", kwargs)))


class SoftmaxOp(ParameterizedOp):
    """Probabilities of logits; see :func:`flashinfer.sampling.softmax`."""

    IN, OUT = LOGITS, PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        logits = self._take(tensor)
        return self._give(sampling.softmax(
            logits, enable_pdl=self._param("enable_pdl", kwargs, default=None)))


class FusedTemperatureSoftmaxOp(ParameterizedOp):
    """:class:`TemperatureOp`, then :class:`SoftmaxOp`, in one pass."""

    IN, OUT = LOGITS, PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        logits = self._take(tensor)
        return self._give(sampling.softmax(
            logits, self._param("temperature", kwargs),
            enable_pdl=self._param("enable_pdl", kwargs, default=None)))


class LogitsTopKOp(ParameterizedOp):
    """All but the ``top_k`` largest logits become -inf."""

    IN, OUT = LOGITS, LOGITS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        logits = self._take(tensor)
        return self._give(sampling.top_k_mask_logits(logits, self._param("top_k", kwargs)))


class ProbsTopKOp(ParameterizedOp):
    """The ``top_k`` largest probabilities divided by their sum, the others 0."""

    IN, OUT = PROBS, PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        return self._give(sampling.top_k_renorm_probs(probs, self._param("top_k", kwargs)))


class TopPOp(ParameterizedOp):
    """The fewest largest probabilities that reach ``top_p``, divided by their sum; the others 0."""

    IN, OUT = PROBS, PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        return self._give(sampling.top_p_renorm_probs(probs, self._param("top_p", kwargs)))


class MinPOp(ParameterizedOp):
    """Probabilities of at least ``min_p`` times the largest, divided by their sum; the others 0."""

    IN, OUT = PROBS, PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        return self._give(_min_p_renormed(probs, self._param("min_p", kwargs)))


class _SamplingOp(ParameterizedOp):
    """Draws a token per row; the parameters all samplers take come from the pipeline's call."""

    OUT = INDICES

    @staticmethod
    def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
        return {name: kwargs[name] for name in _RANDOM if kwargs.get(name) is not None}

    def _random(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"deterministic": self._param("deterministic", kwargs, default=True),
                **self._given(kwargs)}


class ProbsSampleOp(_SamplingOp):
    """A token per row of probabilities; see :func:`flashinfer.sampling.sampling_from_probs`."""

    IN = PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        return self._give(sampling.sampling_from_probs(probs, **self._random(kwargs)))


class LogitsSampleOp(_SamplingOp):
    """A token per row of logits; see :func:`flashinfer.sampling.sampling_from_logits`."""

    IN = LOGITS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        logits = self._take(tensor)
        return self._give(sampling.sampling_from_logits(logits, **self._random(kwargs)))


class FusedProbsTopKSampleOp(_SamplingOp):
    """:class:`ProbsTopKOp`, then :class:`ProbsSampleOp`, without the filtered probabilities."""

    IN = PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        return self._give(sampling.top_k_sampling_from_probs(
            probs, self._param("top_k", kwargs), **self._random(kwargs)))


class FusedProbsTopPSampleOp(_SamplingOp):
    """:class:`TopPOp`, then :class:`ProbsSampleOp`, without the filtered probabilities."""

    IN = PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        return self._give(sampling.top_p_sampling_from_probs(
            probs, self._param("top_p", kwargs), **self._random(kwargs)))


class FusedProbsMinPSampleOp(_SamplingOp):
    """:class:`MinPOp`, then :class:`ProbsSampleOp`, without the filtered probabilities."""

    IN = PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        return self._give(sampling.min_p_sampling_from_probs(
            probs, self._param("min_p", kwargs), **self._random(kwargs)))


class FusedProbsTopKTopPSampleOp(_SamplingOp):
    """:class:`ProbsTopKOp`, :class:`TopPOp` and :class:`ProbsSampleOp` in one pass.

    With ``joint_topk_topp`` both filters look at the original probabilities, else top-p at those
    that top-k left.
    """

    IN = PROBS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        probs = self._take(tensor)
        joint = self._param("joint_topk_topp", kwargs, default=False)
        return self._give(sampling.top_k_top_p_sampling_from_probs(
            probs, self._param("top_k", kwargs), self._param("top_p", kwargs),
            filter_apply_order="joint" if joint else "top_k_first", **self._random(kwargs)))


class FusedSoftmaxSampleOp(_SamplingOp):
    """From logits to tokens in one pass: temperature, softmax, the filters and the draw.

    ``filters`` names those of ``temperature``, ``top_k``, ``top_p`` and ``min_p`` that the
    pipeline has; a parameter that no step of the pipeline asked for is not looked at.
    """

    IN = LOGITS

    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        logits = self._take(tensor)
        filters = {name: self._param(name, kwargs) for name in self.default_params["filters"]}
        joint = self._param("joint_topk_topp", kwargs, default=False)
        return self._give(sample_filtered(
            "logits", logits, filters, order="joint" if joint else "top_k_first", by_source=True,
            **self._given(kwargs)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.default_params['filters'])})"
