# SPDX-License-Identifier: Apache-2.0
"""flashinfer.logits_processor: what pipelines compile to, that fusion changes nothing, errors."""
import itertools

import numpy as np
import pytest
import sampling_oracle as oracle

from flashinfer import logits_processor as lp
from flashinfer import sampling
from flashinfer.logits_processor import (
    LogitsPipe,
    MinP,
    Sample,
    Softmax,
    TaggedTensor,
    Temperature,
    TensorType,
    TopK,
    TopP,
)

LOGITS, PROBS, INDICES = TensorType.LOGITS, TensorType.PROBS, TensorType.INDICES
PARAMETERS = dict(temperature=0.7, top_k=9, top_p=0.8, min_p=0.1)


def names(ops):
    return [type(op).__name__ for op in ops]


@pytest.fixture
def logits(tensors, rng):
    return tensors.make(rng.standard_normal((40, 101)) * 2, "float32")


@pytest.mark.parametrize("processors, input_type, ops, compiled", [
    ([Temperature(), Softmax()], None, ["TemperatureOp", "SoftmaxOp"],
     ["FusedTemperatureSoftmaxOp"]),
    ([TopK()], LOGITS, ["LogitsTopKOp"], ["LogitsTopKOp"]),
    ([TopK(), Softmax()], LOGITS, ["LogitsTopKOp", "SoftmaxOp"], ["LogitsTopKOp", "SoftmaxOp"]),
    ([TopK(), Sample()], PROBS, ["ProbsTopKOp", "ProbsSampleOp"], ["FusedProbsTopKSampleOp"]),
    ([TopK(), Sample()], LOGITS, ["LogitsTopKOp", "LogitsSampleOp"],
     ["LogitsTopKOp", "LogitsSampleOp"]),
    ([TopP(), Sample()], None, ["TopPOp", "ProbsSampleOp"], ["FusedProbsTopPSampleOp"]),
    ([MinP(), Sample()], None, ["MinPOp", "ProbsSampleOp"], ["FusedProbsMinPSampleOp"]),
    ([TopK(), TopP(), Sample()], PROBS, ["ProbsTopKOp", "TopPOp", "ProbsSampleOp"],
     ["FusedProbsTopKTopPSampleOp"]),
    ([TopP(), TopK(), Sample()], None, ["TopPOp", "ProbsTopKOp", "ProbsSampleOp"],
     ["TopPOp", "FusedProbsTopKSampleOp"]),
    ([Softmax(), Sample()], None, ["SoftmaxOp", "ProbsSampleOp"], ["FusedSoftmaxSampleOp"]),
    ([Temperature(), Softmax(), TopK(), TopP(), MinP(), Sample()], None,
     ["TemperatureOp", "SoftmaxOp", "ProbsTopKOp", "TopPOp", "MinPOp", "ProbsSampleOp"],
     ["FusedSoftmaxSampleOp"]),
    ([Temperature(), Softmax(), TopP(), TopK(), Sample()], None,
     ["TemperatureOp", "SoftmaxOp", "TopPOp", "ProbsTopKOp", "ProbsSampleOp"],
     ["FusedTemperatureSoftmaxOp", "TopPOp", "FusedProbsTopKSampleOp"]),
])
def test_what_a_pipeline_compiles_to(processors, input_type, ops, compiled):
    pipe = LogitsPipe(processors, input_type=input_type)
    assert names(pipe.ops) == ops
    assert names(pipe.compiled_ops) == compiled
    assert pipe.initial_type is pipe.ops[0].IN
    assert LogitsPipe(processors, compile=False, input_type=input_type).compiled_ops is None


def test_repr():
    pipe = LogitsPipe([TopK(), Sample()], input_type=PROBS)
    assert repr(pipe) == ("LogitsPipe([TopK -> Sample], ops=[ProbsTopKOp -> ProbsSampleOp], "
                          "compiled_ops=[FusedProbsTopKSampleOp])")


FILTERS = [TopK, TopP, MinP]
CHAINS = [list(chain) for count in range(4) for chain in itertools.permutations(FILTERS, count)]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "-".join(c.__name__ for c in chain))
@pytest.mark.parametrize("from_logits", [True, False])
def test_fusion_changes_nothing(tensors, logits, chain, from_logits):
    """Each order of filters, against the steps one by one and against float64."""
    processors = [*([Temperature(), Softmax()] if from_logits else []),
                  *(filter() for filter in chain), Sample()]
    x = logits if from_logits else sampling.softmax(logits)
    input_type = LOGITS if from_logits else PROBS
    fused = LogitsPipe(processors, input_type=input_type)
    plain = LogitsPipe(processors, compile=False, input_type=input_type)
    assert len(fused.compiled_ops) < len(plain.ops) or processors[:-1] == []
    tokens = tensors.read(fused(x, seed=17, **PARAMETERS))
    assert np.mean(tokens == tensors.read(plain(x, seed=17, **PARAMETERS))) > 0.95
    rows = tensors.read(x)
    rows = oracle.softmax(rows, PARAMETERS["temperature"]) if from_logits else rows
    keep = {TopK: lambda p: oracle.top_k(p, 9), TopP: lambda p: oracle.top_p(p, np.float32(0.8)),
            MinP: lambda p: oracle.min_p(p, np.float32(0.1))}
    for row, probs in enumerate(rows):
        for filter in chain:
            probs = keep[filter](probs)
        assert tokens[row] in oracle.draw(probs, oracle.philox_uniform(17, row, 0)), row


def test_steps_are_the_sampling_functions(tensors, logits):
    def same(a, b):
        np.testing.assert_array_equal(tensors.read(a), tensors.read(b))

    probs = sampling.softmax(logits)
    same(LogitsPipe([Temperature(), Softmax()])(logits, temperature=0.3),
         sampling.softmax(logits, 0.3))
    same(LogitsPipe([TopP()])(probs, top_p=0.4), sampling.top_p_renorm_probs(probs, 0.4))
    same(LogitsPipe([TopK()], input_type=PROBS)(probs, top_k=4),
         sampling.top_k_renorm_probs(probs, 4))
    same(LogitsPipe([TopK()], input_type=LOGITS)(logits, top_k=4),
         sampling.top_k_mask_logits(logits, 4))
    same(LogitsPipe([Sample()], input_type=LOGITS)(logits, seed=3, offset=2),
         sampling.sampling_from_logits(logits, seed=3, offset=2))
    indices = tensors.make(np.array([3, 3, 1], np.int64))
    same(LogitsPipe([Sample()], input_type=PROBS)(probs, seed=3, indices=indices),
         sampling.sampling_from_probs(probs, seed=3, indices=indices))
    same(LogitsPipe([TopK(), TopP(), Sample()], input_type=PROBS)(probs, top_k=9, top_p=.5, seed=3),
         sampling.top_k_top_p_sampling_from_probs(probs, 9, 0.5, seed=3))


@pytest.mark.parametrize("from_logits", [True, False])
def test_joint_filters(tensors, logits, from_logits):
    processors = [TopK(joint_topk_topp=True), TopP(), Sample()]
    if from_logits:
        pipe, x = LogitsPipe([Softmax(), *processors]), logits
        direct = sampling.top_k_top_p_sampling_from_logits
    else:
        pipe, x = LogitsPipe(processors, input_type=PROBS), sampling.softmax(logits)
        direct = sampling.top_k_top_p_sampling_from_probs
    for seed in range(5):
        np.testing.assert_array_equal(
            tensors.read(pipe(x, top_k=20, top_p=0.5, seed=seed)),
            tensors.read(direct(x, 20, 0.5, filter_apply_order="joint", seed=seed)))


def test_top_k_of_logits_then_top_p(tensors, logits):
    masked = LogitsPipe([TopK()], input_type=LOGITS)(logits, top_k=20)
    tokens = LogitsPipe([Softmax(), TopP(), Sample()])(masked, top_p=0.8, seed=5)
    direct = sampling.top_k_top_p_sampling_from_logits(logits, 20, 0.8, seed=5)
    assert np.mean(tensors.read(tokens) == tensors.read(direct)) > 0.97


@pytest.mark.parametrize("compile", [True, False])
def test_temperature_per_row_and_zero(tensors, compile):
    logits = tensors.make(np.array([[1, 3, -np.inf], [1, 3, -np.inf]]), "float32")
    pipe = LogitsPipe([Temperature(), Softmax()], compile=compile)
    rows = tensors.read(pipe(logits, temperature=tensors.make(np.array([0, 2]), "float32")))
    np.testing.assert_allclose(rows[0], [0.5, 0.5, 0], rtol=1e-6)
    np.testing.assert_allclose(rows[1, :2], oracle.softmax(np.array([0.5, 1.5])), rtol=1e-6)
    rows = tensors.read(pipe(logits, temperature=0))
    np.testing.assert_allclose(rows, [[0.5, 0.5, 0]] * 2, rtol=1e-6)
    with pytest.raises(ValueError, match="temperature: is -1"):
        pipe(logits, temperature=-1.0)


def test_compile_later(logits):
    pipe = LogitsPipe([Softmax(), Sample()], compile=False)
    pipe.compile()
    assert names(pipe.compiled_ops) == ["FusedSoftmaxSampleOp"]


def test_tagged_tensors(tensors, logits):
    pipe = LogitsPipe([Softmax()])
    assert pipe(TaggedTensor.logits(logits)).shape == (40, 101)
    with pytest.raises(ValueError, match="x: is tagged PROBS, this pipeline takes LOGITS"):
        pipe(TaggedTensor.probs(logits))
    tagged = TaggedTensor(logits, PROBS)
    assert tagged.size() == (40, 101) and tagged.size(1) == 101 and tagged.dtype == logits.dtype
    with pytest.raises(ValueError, match="SoftmaxOp: got PROBS, accepted: LOGITS"):
        lp.SoftmaxOp()(tagged)


@pytest.mark.parametrize("build, error, words", [
    (lambda: LogitsPipe([]), ValueError, "processors: is empty"),
    (lambda: LogitsPipe([TopK()]), lp.LegalizationError, "input_type: is not given.*TopK"),
    (lambda: LogitsPipe([Sample()]), lp.LegalizationError, "TensorType.LOGITS or TensorType.PROBS"),
    (lambda: LogitsPipe([Softmax()], input_type=PROBS), lp.LegalizationError,
     "Softmax: its input is PROBS, accepted: LOGITS"),
    (lambda: LogitsPipe([Softmax(), Temperature()]), lp.LegalizationError, "Temperature"),
    (lambda: LogitsPipe([TopP()], input_type=LOGITS), lp.LegalizationError, "TopP"),
    (lambda: LogitsPipe([Softmax(), Sample(), TopK()]), lp.LegalizationError, "after the tokens"),
    (lambda: LogitsPipe([Softmax], compile=False, input_type=LOGITS), lp.LegalizationError,
     "LogitsProcessor"),
    (lambda: LogitsPipe([Softmax()], input_type=INDICES), lp.LegalizationError, "INDICES"),
])
def test_pipelines_that_are_wrong(build, error, words):
    with pytest.raises(error, match=words):
        build()
    with pytest.raises(ValueError):  # all of them are that
        build()


def test_a_parameter_that_is_missing(logits):
    for compile in (True, False):
        pipe = LogitsPipe([Temperature(), Softmax(), TopP(), Sample()], compile=compile)
        with pytest.raises(ValueError, match="top_p: is not given"):
            pipe(logits, temperature=1.0)


# --- custom processors, rules and checks ---------------------------------------------------------


class AddOp(lp.ParameterizedOp):
    IN, OUT = LOGITS, LOGITS

    def __call__(self, tensor, **kwargs):
        return TaggedTensor.logits(tensor.data + self._param("bias", kwargs, default=1.0))


class Add(lp.LogitsProcessor):
    def legalize(self, input_type):
        if input_type is not LOGITS:
            raise lp.LegalizationError(f"{self!r}: its input is {input_type.name}")
        return [AddOp(**self.params)]


class FusedAddSoftmaxOp(AddOp):
    OUT = PROBS

    def __call__(self, tensor, **kwargs):
        return lp.SoftmaxOp()(super().__call__(tensor, **kwargs))


def test_custom_processor(tensors, logits):
    pipe = LogitsPipe([Add(bias=3.0)])
    assert pipe.initial_type is LOGITS
    np.testing.assert_array_equal(tensors.read(pipe(logits)), tensors.read(logits + 3.0))
    np.testing.assert_array_equal(tensors.read(pipe(logits, bias=2.0)), tensors.read(logits + 2.0))


@pytest.mark.parametrize("pattern", [(AddOp, lp.SoftmaxOp), (Add, Softmax)])
def test_custom_fusion_rule(tensors, logits, pattern):
    """A pattern may name steps, or the processors that they came from."""
    windows = []

    def guard(window):
        windows.append(names(window))
        return True

    rule = lp.FusionRule(pattern, guard, lambda window: FusedAddSoftmaxOp(), prio=50)
    pipe = LogitsPipe([Add(), Softmax(), TopK(), Sample()], custom_fusion_rules=[rule])
    assert names(pipe.compiled_ops) == ["FusedAddSoftmaxOp", "FusedProbsTopKSampleOp"]
    assert windows == [["AddOp", "SoftmaxOp"]]
    np.testing.assert_array_equal(
        tensors.read(pipe(logits, top_k=1)), tensors.read(logits).argmax(axis=1))
    refused = lp.FusionRule(pattern, lambda window: False, lambda window: None)
    pipe = LogitsPipe([Add(), Softmax()], custom_fusion_rules=[refused])
    assert names(pipe.compiled_ops) == ["AddOp", "SoftmaxOp"]


@pytest.mark.parametrize("build, words", [
    (lambda window: AddOp(), "AddOp: is LOGITS to LOGITS, but stands for"),
    (lambda window: None, "build: gave a NoneType"),
])
def test_a_rule_that_builds_the_wrong_step(build, words):
    rule = lp.FusionRule((AddOp, lp.SoftmaxOp), lambda window: True, build)
    with pytest.raises(lp.FusionError, match=words):
        LogitsPipe([Add(), Softmax()], custom_fusion_rules=[rule])
    assert issubclass(lp.FusionError, lp.CompileError)


def test_custom_validity_check():
    def needs_temperature(ops):
        if not any(isinstance(op, lp.TemperatureOp) for op in ops):
            raise lp.CompileError("no temperature")

    LogitsPipe([Temperature(), Softmax()], custom_validity_checks=[needs_temperature])
    with pytest.raises(lp.CompileError, match="no temperature"):
        LogitsPipe([Softmax()], custom_validity_checks=[needs_temperature])


def test_compiler_checks_steps_that_no_processor_made():
    with pytest.raises(lp.CompileError, match="gives LOGITS, but TopPOp after it takes PROBS"):
        lp.compile_pipeline([AddOp(), lp.TopPOp()])
    with pytest.raises(lp.CompileError, match="ProbsSampleOp: gives token ids"):
        lp.compile_pipeline([lp.ProbsSampleOp(), lp.ProbsSampleOp()])


def test_unknown_parameters_are_refused(logits):
    pipe = LogitsPipe([Temperature(), Softmax()])
    with pytest.raises(TypeError, match="^temperatur: no processor has this parameter, accepted: "):
        pipe(logits, temperature=0.5, temperatur=0.7)
    pipe(logits, temperature=0.5, top_k=3)  # of another pipeline, perhaps
    LogitsPipe([Add(), Softmax()])(logits, offset_of_mine=1)
