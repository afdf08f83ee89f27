# SPDX-License-Identifier: Apache-2.0
"""The torch ops themselves: schema, fake implementation, functionalisation."""
import pathlib
import re

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: tools/setup --dev installs it")

import flashinfer  # noqa: E402
from flashinfer import torch_ops  # noqa: E402
from flashinfer._binding import lib  # noqa: E402
from torch_calls import CALLS, numbers  # noqa: E402

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
FOR_CUDA = {"attention_run_variant", "single_attention_variant"}  # the CPU backend refuses them
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor",
          "test_aot_dispatch_dynamic")


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
    """Keeps each op of ours that is called, with its arguments."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op.namespace == "flashinfer":
            kept = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
            self.seen.append((op, kept))
        return op(*args, **(kwargs or {}))


SOURCE = pathlib.Path(__file__).resolve().parents[2]


def test_every_exported_function_is_an_op_with_a_call():
    exported = set()
    for path in (SOURCE / "bindings/tvm_ffi").glob("*.cc"):
        exported |= set(re.findall(r"^FLASHINFER_EXPORT\((\w+),", path.read_text(), re.MULTILINE))
    assert exported - torch_ops.HOST_FUNCTIONS == set(torch_ops.ops())
    assert set(torch_ops.ops()) - set(CALLS) == FOR_CUDA
    assert torch_ops.HOST_FUNCTIONS <= exported


@pytest.mark.parametrize("layout", [0, 1, 2])
def test_block_scale_bytes(layout):
    for sizes in ((0, 3), (1, 1), (8, 4), (129, 5), (256, 64)):
        assert torch_ops.block_scale_bytes(layout, *sizes) == lib.block_scale_bytes(layout, *sizes)


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name):
    """Among others: what is mutated is what the schema says."""
    torch.manual_seed(1)
    with Recorder() as recorder, torch_ops.as_torch_ops():
        for function, make in CALLS[name]:
            function(*make())
    assert [op for op, _ in recorder.seen] == [torch_ops.ops()[name]] * len(CALLS[name])
    for op, arguments in recorder.seen:
        # The schema check multiplies, which torch cannot do in float8.
        has_float8 = any(isinstance(a, torch.Tensor) and a.dtype in FLOAT8 for a in arguments)
        torch.library.opcheck(op, tuple(arguments),
                              test_utils=CHECKS[1:] if has_float8 else CHECKS)


def test_eager_calls_skip_the_dispatcher():
    x, weight, out = numbers(3, 64), numbers(64), torch.empty(3, 64)
    with Recorder() as recorder:
        flashinfer.rmsnorm(x, weight, out=out)
        assert not recorder.seen
        with torch_ops.as_torch_ops():
            flashinfer.rmsnorm(x, weight, out=out)
        assert len(recorder.seen) == 1
        flashinfer.rmsnorm(x, weight, out=out)
        assert len(recorder.seen) == 1
