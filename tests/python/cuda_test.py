# SPDX-License-Identifier: Apache-2.0
"""The binding on a CUDA device: tensors, the current stream, graphs, errors. The device is the one
in software (docs/software-device.md), which runs the kernels of the library."""
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = pathlib.Path(os.environ.get("FLASHINFER_LIBRARY_DIR",
                                        HERE.parents[1] / "build/release/lib"))
DEVICE = LIBRARIES.parent / "software_device"


def run(cache, *arguments, script="cuda_calls.py", **switches):
    if not (DEVICE / "libcuda.so.1").exists():
        pytest.skip(f"{DEVICE / 'libcuda.so.1'} is not built")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(DEVICE), "FLASHINFER_SOFTWARE_ARCH": "80",
                   "FLASHINFER_NVRTC": str(DEVICE / "libnvrtc.so.13"),
                   "FLASHINFER_CACHE_DIR": str(cache), **switches}
    done = subprocess.run([sys.executable, HERE / script, *arguments], env=environment,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def test_calls_on_a_device(tmp_path):
    run(tmp_path)


def test_kernels_that_may_not_be_compiled(tmp_path):
    run(tmp_path, "without_compiler", FLASHINFER_DISABLE_JIT="1")


def test_tables_on_a_device(tmp_path):
    run(tmp_path, script="cuda_tables.py")


def test_arrays_of_cupy(tmp_path):
    run(tmp_path, script="cuda_cupy.py")
