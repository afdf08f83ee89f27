# SPDX-License-Identifier: Apache-2.0
"""The border between Python and the library: arguments, strides, dtypes, errors, threads."""
import pathlib
import re
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import flashinfer
from flashinfer._binding import lib

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def in_fresh_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_import_loads_no_framework_and_no_library():
    done = in_fresh_python("import sys, flashinfer\n"
                           "print([m for m in ('torch', 'numpy', 'tvm_ffi') if m in sys.modules])")
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_works_without_torch():
    done = in_fresh_python("import sys; sys.modules['torch'] = None\n"
                           "import numpy as np, flashinfer\n"
                           "x = np.full((2, 64), 3, np.float32)\n"
                           "print(flashinfer.rmsnorm(x, np.ones(64, np.float32), 0.0)[1, 5])")
    assert (done.returncode, done.stdout.strip()) == (0, "1.0"), done.stderr


def test_version_is_that_of_the_headers():
    text = (SOURCE / "include/flashinfer/version.h").read_text()
    numbers = re.findall(r"define FLASHINFER_VERSION_[A-Z]+ (\d+)", text)
    assert flashinfer.__version__ == ".".join(numbers) == lib.version()


def test_strides(tensors, rng):
    wide = tensors.make(rng.standard_normal((7, 3, 96)), "float32")
    weight = tensors.make(np.ones(64), "float32")
    x = wide[::2, :, 16:80]
    dense = tensors.make(np.ascontiguousarray(tensors.read(x)), "float32")
    np.testing.assert_array_equal(tensors.read(flashinfer.rmsnorm(x, weight)),
                                  tensors.read(flashinfer.rmsnorm(dense, weight)))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_read_only_array(rng, dtype):
    x = rng.standard_normal((3, 64)).astype(dtype)
    weight = np.ones(64, dtype)
    expected = flashinfer.rmsnorm(x, weight)
    x.flags.writeable = False
    assert (flashinfer.rmsnorm(x, weight) == expected).all()


def test_read_only_array_is_not_written_to(rng):
    x, weight, out = rng.standard_normal((2, 64)), np.ones(64), np.zeros((2, 64), np.float32)
    x, weight = x.astype(np.float32), weight.astype(np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: the array is read-only"):
        flashinfer.rmsnorm(x, weight, out=out)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="x: the array is read-only"):
        flashinfer.fused_add_rmsnorm(x, x.copy(), weight)
    assert not out.any()


def test_array_of_another_byte_order():
    x = np.ones((2, 8), np.dtype(np.float32).newbyteorder())
    with pytest.raises(ValueError, match="byte order"):
        flashinfer.rmsnorm(x, np.ones(8, np.float32))


def test_strides_that_are_no_multiple_of_the_item_size():
    record = np.zeros(4, [("a", np.uint8), ("b", ml_dtypes.bfloat16)])
    with pytest.raises(ValueError, match="strides of"):
        flashinfer.rmsnorm(record["b"].reshape(1, 4), np.ones(4, ml_dtypes.bfloat16))


@pytest.mark.parametrize("change, words", [
    (dict(weight=np.ones(63, np.float32)), r"weight: shape is \[63\], expected \[64\]"),
    (dict(weight=None), "weight: no tensor was given"),
    (dict(input=np.ones((2, 64), np.float64)), "^x: dtype is float64, accepted: float32"),
    (dict(weight=np.ones(64, np.float64)), "^weight: dtype is float64, accepted: float32"),
    (dict(input=np.ones((2, 64), np.int32)), "x: dtype is i32"),
    (dict(input=np.ones((1,) * 6 + (64,), np.float32)), "^x: has 7 dimensions"),
    (dict(input=np.ones((2, 128), np.float32)[:, ::2]), "x: "),
])
def test_wrong_arguments_raise_value_error(change, words):
    arguments = dict(input=np.ones((2, 64), np.float32), weight=np.ones(64, np.float32),
                     out=np.ones((2, 64), np.float32))
    with pytest.raises(ValueError, match=words):
        flashinfer.rmsnorm(**{**arguments, **change})
    assert (arguments["out"] == 1).all()


def test_what_is_no_tensor_raises_type_error():
    x, weight = np.ones((2, 64), np.float32), np.ones(64, np.float32)
    with pytest.raises(TypeError):
        flashinfer.rmsnorm("x", weight)
    with pytest.raises(TypeError, match="^weight: is a list, accepted: a tensor$"):
        flashinfer.rmsnorm(x, [1.0] * 64)
    with pytest.raises(TypeError, match="^eps: is a str, accepted: a number$"):
        flashinfer.rmsnorm(x, weight, eps="small")


def test_views_that_torch_negates(tensors, rng):
    """Imaginary parts of conjugated numbers are their memory's negative; DLPack does not say so."""
    numbers = rng.standard_normal((5, 2)) + 1j * (1 + rng.random((5, 2)))
    logits = tensors.make(rng.standard_normal((5, 9)), "float32")
    if tensors.name == "numpy":
        stored = numbers.astype(np.complex64).imag[:, 0]
    else:
        torch = pytest.importorskip("torch")
        stored = torch.from_numpy(numbers.astype(np.complex64)).imag[:, 0]
        negated = torch.from_numpy(-numbers.astype(np.complex64)).conj_physical().conj().imag[:, 0]
        assert negated.is_neg()
        with pytest.raises(ValueError, match=r"^temperature: .*temperature.resolve_neg\(\)"):
            flashinfer.softmax(logits, temperature=negated)
    dense = tensors.make(np.ascontiguousarray(tensors.read(stored)), "float32")
    np.testing.assert_array_equal(tensors.read(flashinfer.softmax(logits, temperature=stored)),
                                  tensors.read(flashinfer.softmax(logits, temperature=dense)))


def test_threads(rng):
    x = rng.standard_normal((64, 256)).astype(np.float32)
    weight = rng.standard_normal(256).astype(np.float32)
    expected = flashinfer.rmsnorm(x, weight)
    wrong = []

    def work():
        for _ in range(200):
            if not (flashinfer.rmsnorm(x, weight) == expected).all():
                wrong.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_of_jax_are_not_written_to(rng, monkeypatch):
    """By a stand-in: jax_test.py has those of JAX, where it is installed."""

    class Array:
        def __init__(self, values):
            self.values, self.shape, self.dtype = values, values.shape, values.dtype

        def __dlpack__(self, **options):
            return self.values.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

        def __array__(self, dtype=None, copy=None):
            return self.values

    Array.__module__ = "jax"
    monkeypatch.setitem(sys.modules, "jax", sys.modules[__name__])
    x, weight = (rng.standard_normal(s).astype(np.float32) for s in ((3, 64), (64,)))
    ours = flashinfer.rmsnorm(Array(x), Array(weight))
    np.testing.assert_array_equal(ours, flashinfer.rmsnorm(x, weight))
    out = np.zeros_like(x)
    with pytest.raises(ValueError, match="out: is an array of JAX"):
        flashinfer.rmsnorm(x, weight, out=Array(out))
    with pytest.raises(ValueError, match="residual: is an array of JAX"):
        flashinfer.fused_add_rmsnorm(x, Array(out), weight)
    assert (out == 0).all()
    with pytest.raises(ValueError, match="workspace: is an array of JAX"):
        flashinfer.BatchDecodeWithPagedKVCacheWrapper(Array(np.zeros(1024, np.uint8)))


def test_torch_parameters_and_views(rng):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.from_numpy(rng.standard_normal((4, 64))).float()
    weight = torch.nn.Parameter(torch.ones(64))
    expected = flashinfer.rmsnorm(x, torch.ones(64))
    with torch.inference_mode():
        assert torch.equal(flashinfer.rmsnorm(x, weight), expected)
    assert torch.equal(flashinfer.rmsnorm(x, weight), expected)
    assert torch.equal(flashinfer.rmsnorm(x.expand(2, 4, 64)[1], weight.data), expected)


def test_objects_at_the_end_of_the_interpreter():
    """A plan, and the library's thread pool, live until the process ends."""
    done = in_fresh_python(
        "import atexit, threading, numpy as np, flashinfer\n"
        "x, w = np.ones((256, 1024), np.float32), np.ones(1024, np.float32)\n"
        "def call(): flashinfer.rmsnorm(x, w)\n"
        "threads = [threading.Thread(target=call) for _ in range(3)]\n"
        "for t in threads: t.start()\n"
        "atexit.register(call)\n"
        "wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(np.zeros(1 << 20, np.uint8))\n"
        "wrapper.plan(np.int32([0, 1]), np.int32([0]), np.int32([3]), 2, 1, 64, 4,\n"
        "             q_data_type='float32')\n"
        "import builtins; builtins.kept = wrapper\n"
        "print('done')")
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def test_other_threads_run_while_the_library_works():
    """The library is called without the interpreter's lock: nothing else gives it up here."""
    x, weight = np.ones((2048, 4096), np.float32), np.ones(4096, np.float32)
    flashinfer.rmsnorm(x, weight, out=x)
    stop, ticks, interval = threading.Event(), [], sys.getswitchinterval()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(1e-4)

    thread = threading.Thread(target=tick)
    sys.setswitchinterval(100)
    try:
        thread.start()
        for _ in range(200):
            start = time.perf_counter()
            lib.rmsnorm(x, weight, x, 1e-6)
            end = time.perf_counter()
            if any(start < t < end for t in ticks):
                return
        raise AssertionError("no other thread ran during any of 200 calls")
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()
