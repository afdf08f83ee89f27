# SPDX-License-Identifier: Apache-2.0
"""Under torch.compile and torch.export, and on request, calls are ops; no graph breaks."""
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: tools/setup --dev installs it")

from torch._dynamo.backends.debugging import aot_eager  # noqa: E402
from torch._dynamo.testing import CompileCounter  # noqa: E402

import flashinfer  # noqa: E402
from flashinfer import sampling, torch_ops  # noqa: E402
from flashinfer.logits_processor import (  # noqa: E402
    LogitsPipe,
    MinP,
    Sample,
    Softmax,
    Temperature,
    TopK,
    TopP,
)
from torch_calls import (  # noqa: E402
    CALLS,
    VOCAB,
    chances,
    integers,
    numbers,
    pages,
    workspace,
)


def bits(x):
    return x.contiguous().view(torch.uint8)


def leaves(result):
    return [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def copies(arguments):
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]


@pytest.mark.parametrize("name", CALLS)
def test_full_graph(name):
    """No graph break, the op is in the graph, results and mutated arguments are those of eager."""
    torch.manual_seed(1)
    torch._dynamo.reset()
    functions = [function for function, _ in CALLS[name]]
    all_arguments = [make() for _, make in CALLS[name]]
    graphs = []

    def keep(graph, example_inputs):
        graphs.append(graph.print_readable(print_output=False))
        return aot_eager(graph, example_inputs)

    def run(all_arguments):
        return [function(*a) for function, a in zip(functions, all_arguments)], all_arguments

    expected = leaves(run([copies(a) for a in all_arguments]))
    compiled = torch.compile(run, backend=keep, fullgraph=True)
    actual = leaves(compiled([copies(a) for a in all_arguments]))
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        assert one.dtype == other.dtype and one.stride() == other.stride()
        assert torch.equal(bits(one), bits(other))
    assert len(re.findall(rf"torch\.ops\.flashinfer\.{name}\b", graphs[0])) == len(functions)


def test_numbers_that_change_compile_once():
    counter = CompileCounter()
    torch._dynamo.reset()

    @torch.compile(backend=counter, fullgraph=True, dynamic=True)
    def function(x, k):
        return sampling.top_k_mask_logits(x, k)

    sampling.top_k_mask_logits(numbers(2, VOCAB), 1)  # loads it, which would compile once more
    for k in range(3, 9):
        x = numbers(k, VOCAB)
        assert torch.equal(function(x, k), sampling.top_k_mask_logits(x, k))
    assert counter.frame_count == 1


@pytest.mark.parametrize("is_fused", [True, False])
def test_pipelines(is_fused):
    torch._dynamo.reset()
    pipe = LogitsPipe([Temperature(), Softmax(), TopK(), TopP(), MinP(), Sample()], is_fused)

    def function(x, temperature, top_k):
        return pipe(x, temperature=temperature, top_k=top_k, top_p=0.9, min_p=0.1, seed=3)

    arguments = numbers(3, VOCAB), torch.tensor([0.5, 0.0, 2.0]), integers(5, 0, 9)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*arguments), function(*arguments))


def test_another_plan_keeps_the_compiled_code():
    counter = CompileCounter()
    torch._dynamo.reset()
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
    compiled = torch.compile(wrapper.run, backend=counter, fullgraph=True)
    q, cache = numbers(2, 4, 64), numbers(3, 2, 16, 2, 64)
    for lengths in ((3, 4), (16, 1), (9, 9)):
        wrapper.plan(*pages()[:2], integers(*lengths), 4, 2, 64, 16, q_data_type="float32")
        assert torch.equal(compiled(q, cache), wrapper.run(q, cache))
    assert counter.frame_count == 1


def test_default_generator_gives_fresh_draws():
    torch._dynamo.reset()
    probs = torch.full((8, 4096), 1 / 4096)
    compiled = torch.compile(sampling.sampling_from_probs, backend="aot_eager", fullgraph=True)
    torch.manual_seed(3)
    first, second = compiled(probs), compiled(probs)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(compiled(probs), first)


def test_check_nan_fails_when_run():
    torch._dynamo.reset()
    compiled = torch.compile(lambda p: sampling.sampling_from_probs(p, check_nan=True),
                             backend="eager", fullgraph=True)
    compiled(chances(2, 8))
    with pytest.raises(RuntimeError, match="Input probs contains NaN."):
        compiled(torch.full((2, 8), torch.nan))


def test_make_fx_on_request():
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x):
        return sampling.top_k_mask_logits(x, 3) + 1

    x = numbers(4, VOCAB)
    with torch_ops.as_torch_ops():
        graph = make_fx(function, tracing_mode="fake")(x)
    assert "flashinfer.top_k_mask_logits" in graph.code
    assert torch.equal(graph(x), function(x))


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x):
            return sampling.softmax(x, 0.5)

    x = numbers(4, VOCAB)
    program = torch.export.export(Model(), (x,))
    assert torch.equal(program.module()(x), sampling.softmax(x, 0.5))


def test_the_first_call_may_be_compiled():
    code = ("import flashinfer, torch\n"
            "x, w = torch.ones(2, 64), torch.ones(64)\n"
            "f = torch.compile(flashinfer.rmsnorm, backend='eager', fullgraph=True)\n"
            "print(f(x, w, 0.0).sum().item())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "128.0", done.stderr
