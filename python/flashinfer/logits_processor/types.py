# SPDX-License-Identifier: Apache-2.0
"""What flows through a pipeline of logits processors: a tensor and what it means."""
from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class TensorType(enum.Enum):
    """What the numbers of a tensor in a pipeline are."""

    #: ``[num_rows, vocab_size]``, unnormalised log-probabilities.
    LOGITS = "logits"
    #: ``[num_rows, vocab_size]``, probabilities; rows need not sum to 1.
    PROBS = "probs"
    #: ``[num_outputs]``, token ids.
    INDICES = "indices"


@dataclass(frozen=True)
class TaggedTensor:
    """A tensor of any framework with its :class:`TensorType`.

    Attributes:
        data: the tensor (torch, NumPy, …).
        type: what it holds.
    """

    data: Any
    type: TensorType

    @classmethod
    def logits(cls, data: Any) -> "TaggedTensor":
        """Marks ``data`` as logits."""
        return cls(data, TensorType.LOGITS)

    @classmethod
    def probs(cls, data: Any) -> "TaggedTensor":
        """Marks ``data`` as probabilities."""
        return cls(data, TensorType.PROBS)

    @classmethod
    def indices(cls, data: Any) -> "TaggedTensor":
        """Marks ``data`` as token ids."""
        return cls(data, TensorType.INDICES)

    @property
    def shape(self) -> Any:
        """The shape of ``data``."""
        return self.data.shape

    @property
    def dtype(self) -> Any:
        """The element type of ``data``."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """Where ``data`` lies."""
        return self.data.device

    def size(self, dim: "int | None" = None) -> Any:
        """The shape of ``data``, or one dimension of it."""
        return tuple(self.data.shape) if dim is None else self.data.shape[dim]
