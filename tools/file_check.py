#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every tracked file: size, line ends, the first lines of C++ files, macro names.

Exits with 1 when a file breaks a rule of CONTRIBUTING.md that a program can see.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_BYTES = 200_000
# The closed list of macros; FLASHINFER_VERSION_* are numbers, FLASHINFER_DECLARE is undefined
# again in the file that defines it; FLASHINFER_SKIP_WITHOUT is for tests alone.
MACROS = {"FLASHINFER_API", "FLASHINFER_CHECK", "FLASHINFER_ASSERT", "FLASHINFER_NAMED",
          "FLASHINFER_FOR_EACH_ISA", "FLASHINFER_ISA", "FLASHINFER_ARCH", "FLASHINFER_EXPORT"}
TEST_MACROS = {"FLASHINFER_SKIP_WITHOUT"}
# What users' attention variants were written with.
GIVEN_MACROS = "src/kernels/attention/variant_macros.cuh"
# The Python package keeps the module names of the original, utils among them.
GIVEN_NAMES = "python/flashinfer/"
BAD_NAME = re.compile(r"(^|[_/])(utils?|helpers?|misc|common|new|fast|opt|v[0-9])([_./]|$)")


def check_cpp(path, text):
    lines = text.split("\n")
    if lines[0] != "// SPDX-License-Identifier: Apache-2.0" or not lines[1].startswith("// "):
        yield f"{path}: must begin with the SPDX line and a sentence saying what it is for"
    if path.endswith((".h", ".cuh")) and "#pragma once" not in text:
        yield f"{path}: no #pragma once"
    undefined = set(re.findall(r"^#undef (\w+)", text, re.MULTILINE))
    for name in re.findall(r"^#\s*define (\w+)", text, re.MULTILINE):
        if path == GIVEN_MACROS or path.startswith("tests/") and name in TEST_MACROS:
            continue
        if path.startswith("tests/software_device/"):  # which gives CUDA C++ its words
            continue
        if name in MACROS or name in undefined or name.startswith("FLASHINFER_VERSION_"):
            continue
        yield f"{path}: macro {name} is not in the closed list"


def check_file(path):
    data = (ROOT / path).read_bytes()
    if len(data) > MAX_BYTES:
        yield f"{path}: {len(data)} bytes, at most {MAX_BYTES}"
    if BAD_NAME.search(path) and not path.startswith(GIVEN_NAMES):
        yield f"{path}: the name says nothing; see CONTRIBUTING.md"
    if path.startswith("fuzz/seeds/"):
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        yield f"{path}: not UTF-8 text"
        return
    if path.endswith((".h", ".cuh", ".cc")):
        yield from check_cpp(path, text)
    if text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield f"{path}:{number}: space at the end of the line"


def main():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [f for f in listed.stdout.decode().split("\0") if f and (ROOT / f).is_file()]
    errors = [error for path in files for error in check_file(path)]
    print("\n".join(errors) if errors else f"file_check: {len(files)} files in order")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
