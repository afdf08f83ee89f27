# SPDX-License-Identifier: Apache-2.0
"""Every name that code written for the original imports is there; what is still to come says so."""
import importlib
import inspect
import pathlib
import pkgutil
import subprocess
import sys

import pytest

import flashinfer

SUBMODULES = ("activation cascade decode gemm norm page prefill quantization rope sampling jit "
              "topk mla sparse pod utils testing autotuner api_logging").split()

NEEDS_TORCH = "flashinfer.torch_ops"  # and nothing else does


def modules():
    package = pathlib.Path(flashinfer.__file__).parent
    for found in pkgutil.walk_packages([str(package)], "flashinfer."):
        if found.name != "flashinfer.__main__":
            yield found.name


def test_importing_the_package_binds_its_modules():
    code = f"import flashinfer; print([n for n in {SUBMODULES} if not hasattr(flashinfer, n)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("name", sorted(modules()))
def test_module_can_be_imported(name):
    if name == NEEDS_TORCH:
        pytest.importorskip("torch", reason="torch is not installed: tools/setup --dev installs it")
    importlib.import_module(name)


def pending_names():
    for module_name in modules():
        if module_name == NEEDS_TORCH:
            continue  # its ops are those of the other modules
        module = importlib.import_module(module_name)
        for name, value in vars(module).items():
            if (getattr(value, "__doc__", None) or "").startswith("Raises NotImplementedError: "):
                yield pytest.param(value, id=f"{module_name}.{name}")


@pytest.mark.parametrize("value", list(pending_names()))
def test_pending_name_says_so(value):
    with pytest.raises(NotImplementedError, match=value.__name__):
        value("any", argument="at all")


def test_public_functions_have_docstrings():
    bare = [name for name, value in vars(flashinfer).items()
            if inspect.isfunction(value) and not name.startswith("_") and not value.__doc__]
    assert bare == []
