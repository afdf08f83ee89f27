# SPDX-License-Identifier: Apache-2.0
"""Compiling ahead: see the command ``flashinfer pack build``."""
from ._pending import pending

compile_and_package_modules = pending(
    "compile_and_package_modules", "is not there; use the command: flashinfer pack build")
