# SPDX-License-Identifier: Apache-2.0
"""Pipelines from logits to tokens: write them as processors, run them fused.

A :class:`LogitsPipe` legalises its processors to operators, checks that they fit each other, and
fuses neighbours. Works on torch and NumPy tensors alike.
"""
from .compiler import Compiler, compile_pipeline
from .fusion_rules import FusionRule
from .legalization import infer_initial_type, legalize_processors
from .op import Op, ParameterizedOp
from .operators import (
    FusedProbsMinPSampleOp,
    FusedProbsTopKSampleOp,
    FusedProbsTopKTopPSampleOp,
    FusedProbsTopPSampleOp,
    FusedSoftmaxSampleOp,
    FusedTemperatureSoftmaxOp,
    LogitsSampleOp,
    LogitsTopKOp,
    MinPOp,
    ProbsSampleOp,
    ProbsTopKOp,
    SoftmaxOp,
    TemperatureOp,
    TopPOp,
)
from .pipeline import LogitsPipe
from .processors import LogitsProcessor, MinP, Sample, Softmax, Temperature, TopK, TopP
from .types import TaggedTensor, TensorType
from .validators import CompileError, FusionError, LegalizationError, ValidityCheck

__all__ = [
    "LogitsPipe", "LogitsProcessor", "Temperature", "Softmax", "TopK", "TopP", "MinP", "Sample",
    "TensorType", "TaggedTensor", "Op", "ParameterizedOp", "FusionRule", "ValidityCheck",
    "Compiler", "compile_pipeline", "infer_initial_type", "legalize_processors",
    "LegalizationError", "CompileError", "FusionError",
    "TemperatureOp", "SoftmaxOp", "LogitsTopKOp", "ProbsTopKOp", "TopPOp", "MinPOp",
    "ProbsSampleOp", "LogitsSampleOp", "FusedTemperatureSoftmaxOp", "FusedProbsTopKSampleOp",
    "FusedProbsTopPSampleOp", "FusedProbsMinPSampleOp", "FusedProbsTopKTopPSampleOp",
    "FusedSoftmaxSampleOp",
]
