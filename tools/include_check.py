#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point downwards through the layers (docs/architecture.md).

Each folder may include itself and the folders that ALLOWED lists for it; anything else that is
ours is an error. Exits with 1 when there is one.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Layer -> layers that it may include. A path belongs to the longest layer that prefixes it.
ALLOWED = {
    "include": [],
    "src/core": ["include"],
    "src/plan": ["include", "src/core", "src/kernels"],
    "src/dispatch": ["include", "src/core"],
    "src/kernels": ["include", "src/core"],
    "src/cuda": ["include", "src/core"],
    "src/jit": ["include", "src/core", "src/cuda"],
    # An operator's own header (problem, parameters, candidates) is what its executors implement.
    "src/backends": ["include", "src/core", "src/cuda", "src/jit", "src/plan", "src/dispatch",
                     "src/kernels", "src/ops"],
    "src/ops": ["include", "src/core", "src/cuda", "src/jit", "src/plan", "src/dispatch",
                "src/backends"],
    "bindings/tvm_ffi": ["include"],
    "examples/engine": ["include"],
    "examples/variants": [],
    "cli": ["include", "src/core", "examples/engine"],
    # check and bench: a program of their own.
    "cli/cases": ["include", "src/core", "src/cuda", "cli", "tests/support", "benchmarks"],
    "fuzz": ["include", "src/core", "examples/engine"],
    "benchmarks": ["include", "src/core", "src/plan", "src/dispatch", "src/cuda", "src/backends", "src/ops",
                   "examples/engine", "tests/support"],
    "tests": ["include", "src/core", "src/cuda", "src/jit", "src/plan", "src/dispatch",
              "src/kernels", "src/backends", "src/ops", "examples/engine", "cli", "tests/support"],
    "tests/support": ["include", "src/core", "src/cuda", "src/jit", "src/plan", "src/dispatch", "src/backends", "src/ops"],
    "tests/install": ["include"],
}
# Where an include in quotes or angle brackets may be found, after the including file's folder.
ROOTS = ["include", "src", "examples", "tests", "benchmarks", "cli", "."]
# Outside libraries that only .cc files may include: they take seconds to compile.
SOURCES_ONLY = re.compile(r"^(CLI/|nlohmann/)")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)


def layer_of(path):
    fitting = [l for l in ALLOWED if path.startswith(l + "/")]
    return max(fitting, key=len, default=None)


def resolve(including, name, files):
    """The file of ours that an include names, or None for an outside one."""
    beside = str(pathlib.PurePosixPath(including).parent / name)
    for candidate in [beside] + [name if r == "." else f"{r}/{name}" for r in ROOTS]:
        if candidate in files:
            return candidate
    return None


def check_file(path, files):
    layer = layer_of(path)
    text = (ROOT / path).read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        if path.endswith((".h", ".cuh")) and SOURCES_ONLY.match(match[2]):
            yield f"{path}:{line}: a header must not include {match[2]}"
        target = resolve(path, match[2], files)
        if target is None:
            if match[1] == '"':
                yield f'{path}:{line}: "{match[2]}" is not a file of this project; use <>'
            continue
        target_layer = layer_of(target)
        if target_layer != layer and target_layer not in ALLOWED[layer]:
            yield f"{path}:{line}: {layer} must not include {target_layer} ({target})"


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                             "*.h", "*.cuh", "*.cc"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {f for f in listed.stdout.split("\n") if f and (ROOT / f).exists()}
    errors = []
    for path in sorted(files):
        if layer_of(path) is None:
            errors.append(f"{path}: its folder is in no layer of tools/include_check.py")
        else:
            errors.extend(check_file(path, files))
    print("\n".join(errors) if errors else f"include_check: {len(files)} files in order")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
