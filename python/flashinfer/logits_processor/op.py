# SPDX-License-Identifier: Apache-2.0
"""The low-level operators that a pipeline is made of."""
from __future__ import annotations

import abc
from typing import Any

from .types import TaggedTensor, TensorType

_UNSET = object()


class Op(abc.ABC):
    """One step of a pipeline, from one :class:`TensorType` to another.

    A subclass sets ``IN`` and ``OUT`` and defines ``__call__``.
    """

    IN: TensorType
    OUT: TensorType

    @abc.abstractmethod
    def __call__(self, tensor: TaggedTensor, **kwargs: Any) -> TaggedTensor:
        """Applies the step. ``kwargs`` are those of the pipeline's call, for all its steps."""

    def __repr__(self) -> str:
        return type(self).__name__

    def _take(self, tensor: TaggedTensor) -> Any:
        """The data of ``tensor``; ValueError when it is not what this step works on."""
        if tensor.type is not self.IN:
            raise ValueError(f"{self!r}: got {tensor.type.name}, accepted: {self.IN.name}")
        return tensor.data

    def _give(self, data: Any) -> TaggedTensor:
        return TaggedTensor(data, self.OUT)


class ParameterizedOp(Op):
    """A step with parameters: those of its constructor hold unless the call gives others."""

    def __init__(self, **default_params: Any) -> None:
        self.default_params = default_params

    def _param(self, name: str, kwargs: dict[str, Any], default: Any = _UNSET) -> Any:
        """The parameter of the call, else of the constructor, else ``default``.

        ValueError when there is none of these.
        """
        value = kwargs.get(name)
        if value is None:
            value = self.default_params.get(name)
        if value is None:
            if default is _UNSET:
                raise ValueError(f"{name}: is not given, but {self!r} needs it")
            value = default
        return value
