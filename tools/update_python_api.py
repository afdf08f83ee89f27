#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/python-api.md, the reference of the Python package, from its docstrings.

With --check, writes nothing and exits with 1 when the file is not up to date, or when a public
function or class has no docstring. Imports the package, which needs no library and no framework.
"""
import argparse
import ast
import enum
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "flashinfer"
PAGE = ROOT / "docs" / "python-api.md"
# An object is documented in the first module here that has it; then come the others by name.
FIRST = ("decode", "prefill", "cascade", "attention", "mla", "pod", "sparse", "page", "rope",
         "norm", "activation", "sampling", "topk", "topk_varlen", "logits_processor",
         "quantization", "gemm", "grouped_mm")
# Files of the package that users reach by another name, files of its inside, and what needs torch
# to be imported.
INSIDE = ("attention.", "gemm.", "quantization.", "logits_processor.", "mla.", "jit.", "testing.",
          "cudnn.", "cute_dsl.", "cutile.", "triton.", "trace.")
PRIVATE = re.compile(r"\._|attention\.(arguments|record|planned|mla_tables|prefill_mask)$")
UNIMPORTED = ("torch_ops",)
HEAD = """# Python API

Written by `tools/update_python_api.py` from the docstrings of `python/flashinfer`; do not edit.
[migration.md](migration.md) says what differs from the original. Tensors are those of torch,
NumPy, CuPy or whatever else exports itself by DLPack, in host memory or on a CUDA device; results
are of the framework of the first tensor. Errors: a wrong argument raises `ValueError`, what no
backend takes `flashinfer.BackendSupportedError`, a `NotImplementedError`.
"""


def module_names():
    """Public modules, in the order of the page."""
    found = [info.name.removeprefix("flashinfer.")
             for info in pkgutil.walk_packages([str(PACKAGE)], "flashinfer.")
             if not any(part.startswith("_") for part in info.name.split("."))]
    shown = [name for name in found
             if not name.startswith(INSIDE) or name in ("triton.cascade", "testing.utils")]
    return [*FIRST, *sorted(set(shown) - set(FIRST) - set(UNIMPORTED) - {"version"})]


def is_pending(value):
    return (value.__doc__ or "").startswith("Raises NotImplementedError:")


def is_ours(value):
    if not inspect.isfunction(value) and not inspect.isclass(value):
        return False
    module = value.__module__ or ""
    return module.startswith("flashinfer") and (is_pending(value) or not PRIVATE.search(module))


def default_text(value):
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return getattr(value, "__qualname__", repr(value))


def signature_text(name, value):
    """A call with its defaults, without annotations."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (ValueError, TypeError):
        return name
    parts, has_star = [], False
    for p in parameters:
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not has_star:
            parts.append("*")
            has_star = True
        has_star = has_star or p.kind is p.VAR_POSITIONAL
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else "=" + default_text(p.default)
        parts.append(f"{mark}{p.name}{default}")
    return f"{name}({', '.join(parts)})"


def inline(text):
    """reStructuredText roles and literals as Markdown code."""
    text = re.sub(r":(?:func|class|mod|meth|attr):`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


def doc_text(value):
    """The docstring as Markdown; its sections become lists."""
    lines, out, in_section = (inspect.getdoc(value) or "").split("\n"), [], False
    for line in lines:
        heading = re.fullmatch(r"(Args|Returns|Raises|Attributes):", line)
        if heading:
            out += [*([""] if out and out[-1] else []), f"**{heading[1]}**", ""]
            in_section = True
            continue
        if in_section and line and not line.startswith(" "):
            in_section = False
            out.append("")
        item = re.fullmatch(r"    ([\w*, ]+): (.*)", line)
        if in_section and item:
            names = ", ".join(f"`{name.strip()}`" for name in item[1].split(","))
            out.append(f"- {names}: {item[2]}")
        elif in_section:
            out.append(line.removeprefix("  ") if line.startswith("      ") else line.strip())
        else:
            out.append(line)
    return inline("\n".join(out)).strip()


def methods(cls):
    """Public methods and properties of ours, those of bases included, in the order of the code."""
    seen = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("flashinfer"):
            for name, member in vars(base).items():
                if name == "__call__" or not name.startswith("_"):
                    seen[name] = member
    return {name: member for name, member in seen.items()
            if inspect.isfunction(member) or isinstance(member, property)}


def method_lines(cls):
    by_object = {}
    for name, member in methods(cls).items():
        by_object.setdefault(member, []).append(name)
    for member, names in by_object.items():
        doc = doc_text(member)
        if not doc:
            continue
        if isinstance(member, property):
            yield f"#### `{names[0]}` (property)\n\n{doc}\n"
        else:
            also = f" The same: {', '.join(f'`{n}`' for n in names[1:])}." if names[1:] else ""
            yield f"#### `{signature_text(names[0], member)}`\n\n{doc}{also}\n"


def object_lines(name, value):
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        members = ", ".join(f"`{m.name}` = {m.value!r}" for m in value)
        yield f"### `{name}`\n\n{doc_text(value)}\n\n{members}\n"
    else:
        yield f"### `{signature_text(name, value)}`\n\n{doc_text(value)}\n"
        if inspect.isclass(value):
            yield from method_lines(value)


def also_text(module_name, name, home):
    """One of the names that are documented elsewhere; `home` is where."""
    return f"`{name}`" if home == f"{module_name}.{name}" or home.endswith("." + name) else (
        f"`{name}` (`{home}`)")


def module_lines(name, shown, undocumented):
    """One module; `shown` maps objects to where they are documented."""
    module = importlib.import_module(f"flashinfer.{name}")
    names = {n: v for n, v in vars(module).items() if not n.startswith("_") and is_ours(v)}
    here = {n: v for n, v in names.items() if not is_pending(v)}
    if not here:
        return
    yield f"## flashinfer.{name}\n\n{doc_text(module)}\n"
    also = []
    for n, value in here.items():
        if value in shown:
            also.append(also_text(name, n, shown[value]))
            continue
        shown[value] = f"{name}.{n}"
        if not (value.__doc__ or "").strip():
            undocumented.append(f"flashinfer.{name}.{n}")
        yield from object_lines(n, value)
    if also:
        yield f"Also here: {', '.join(also)}.\n"


def to_come_lines():
    """Names that raise NotImplementedError, by module."""
    yield ("## Names that are still to come\n\n"
           "They exist, so that code which imports them runs; calling one raises "
           "NotImplementedError.\n")
    for name in module_names():
        module = importlib.import_module(f"flashinfer.{name}")
        pending = [f"`{n}`" for n, v in vars(module).items()
                   if not n.startswith("_") and is_ours(v) and is_pending(v)]
        if pending:
            yield f"- flashinfer.{name}: {', '.join(pending)}"


def error_lines():
    yield "## Errors\n"
    package = importlib.import_module("flashinfer")
    for name, value in vars(package).items():
        if inspect.isclass(value) and value.__module__ == "flashinfer._errors":
            base = value.__mro__[1].__name__
            yield f"- `flashinfer.{name}` (`{base}`): {doc_text(value).splitlines()[0]}"
    yield ""


def unimported_lines(name):
    """A module by its text alone."""
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    yield f"## flashinfer.{name}\n\n{inline(ast.get_docstring(tree))}\n"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield f"### `{node.name}()`\n\n{inline(ast.get_docstring(node) or '')}\n"


def page():
    """The text of the page, and the names without a docstring."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(PACKAGE.parent))
    shown, undocumented, parts = {}, [], [HEAD, *error_lines()]
    for name in module_names():
        parts += module_lines(name, shown, undocumented)
    for name in UNIMPORTED:
        parts += unimported_lines(name)
    parts += to_come_lines()
    lines = "\n".join(parts).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip() + "\n", undocumented


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text, undocumented = page()
    if undocumented:
        print("update_python_api: no docstring:", ", ".join(undocumented))
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print("update_python_api: docs/python-api.md is out of date; run "
              "tools/update_python_api.py")
        return 1
    return 1 if undocumented else 0


if __name__ == "__main__":
    sys.exit(main())
