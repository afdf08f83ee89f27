# SPDX-License-Identifier: Apache-2.0
"""Enumerations that mixtures of experts and quantisation share; their values are fixed."""
from __future__ import annotations

from enum import IntEnum
from typing import Any


class ActivationType(IntEnum):
    """What is applied between the two products of an expert."""

    Gelu = 0
    Relu = 1
    Silu = 2
    Swiglu = 3
    Geglu = 4
    SwigluBias = 5
    Relu2 = 6
    SwigluStep = 7
    GegluTanh = 8
    Identity = 9
    Situ = 10
    InvalidType = 11

    @property
    def is_gated(self) -> bool:
        """Whether the first product has two halves, one of which gates the other."""
        return self in _GATED


_GATED = frozenset({ActivationType.Swiglu, ActivationType.Geglu, ActivationType.SwigluBias,
                    ActivationType.SwigluStep, ActivationType.GegluTanh, ActivationType.Situ})


def is_gated_activation(activation_type: Any) -> bool:
    """Whether `activation_type`, a number or an ActivationType, is gated."""
    return ActivationType(activation_type).is_gated


class RoutingMethodType(IntEnum):
    """How a mixture chooses the experts of a token."""

    Default = 0
    Renormalize = 1
    DeepSeekV3 = 2
    Llama4 = 3
    RenormalizeNaive = 4
    TopK = 5
    SigmoidRenorm = 6
    MiniMax2 = 7
    Sigmoid = 8
    TopKSigmoid = 9
    Unspecified = 10


class RoutingInputMode(IntEnum):
    """What a mixture's routing starts from."""

    FromLogits = 0
    PackedPrecomputed = 1
    UnpackedPrecomputed = 2


class WeightLayout(IntEnum):
    """The order of the weights of experts."""

    MajorK = 0
    MajorMn = 1
    BlockMajorK = 2


class Fp8QuantizationType(IntEnum):
    """How the weights of experts are quantised to fp8."""

    NoneFp8 = 0
    DeepSeekFp8 = 1
    MxFp8 = 2


class GatedActType(IntEnum):
    """The gated activation between the products of an expert."""

    SwiGlu = 0
    GeGlu = 1


class SfLayout(IntEnum):
    """Where the scales of blocks lie: flashinfer::ScaleLayout tells the formulas."""

    layout_128x4 = 0
    layout_8x4 = 1
    layout_linear = 2
