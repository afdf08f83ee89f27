# SPDX-License-Identifier: Apache-2.0
"""Every argument and result of the public functions has a type, which can be read."""
import importlib
import inspect
import pathlib
import pkgutil
import typing

import pytest

import flashinfer

PACKAGE = pathlib.Path(flashinfer.__file__).parent
# What is the package's own, and what needs torch to be imported.
INSIDE = {f"flashinfer.attention.{name}" for name in
          "arguments block_tables graph_plan planned prefill_mask record variant".split()}
INSIDE |= {"flashinfer.__main__", "flashinfer.command", "flashinfer.signatures",
           "flashinfer.torch_ops"}


def public_functions():
    """(a name, a function) of all functions and methods that the package shows."""
    for info in pkgutil.walk_packages([str(PACKAGE)], "flashinfer."):
        if info.name in INSIDE or any(p.startswith("_") for p in info.name.split(".")):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != info.name:
                continue
            if (value.__doc__ or "").startswith("Raises NotImplementedError: "):
                continue
            if inspect.isfunction(value):
                yield f"{info.name}.{name}", value
            elif inspect.isclass(value):
                for method, function in vars(value).items():
                    function = getattr(function, "fget", None) or getattr(function, "__func__",
                                                                          function)
                    is_shown = not method.startswith("_") or method == "__init__"
                    if (is_shown and inspect.isfunction(function)
                            and function.__module__ == info.name):
                        yield f"{info.name}.{name}.{method}", function


FUNCTIONS = dict(public_functions())


def test_there_are_functions():
    assert len(FUNCTIONS) > 300


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_types_can_be_read(name):
    function = inspect.unwrap(FUNCTIONS[name])
    hints = typing.get_type_hints(function)
    parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    assert set(parameters) - set(hints) == set()
    assert "return" in hints or function.__name__ == "__init__"


def test_checkers_are_told():
    assert (PACKAGE / "py.typed").exists()


def test_numbers_and_flags_have_their_types():
    hints = typing.get_type_hints(flashinfer.rmsnorm)
    assert hints["eps"] is float and hints["enable_pdl"] == bool | None
    hints = typing.get_type_hints(flashinfer.BatchDecodeWithPagedKVCacheWrapper.run)
    assert hints["return_lse"] is bool and hints["window_left"] == int | None
