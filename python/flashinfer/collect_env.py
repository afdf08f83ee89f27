# SPDX-License-Identifier: Apache-2.0
"""What the library found out about its surroundings."""
from __future__ import annotations

import platform
import sys
from typing import Any

from ._binding import lib
from .version import __version__


def collect_env_info() -> dict:
    """Facts by name: versions, threads, instruction set, devices, compiler, caches, switches."""
    info = {"flashinfer": __version__, "python": platform.python_version(),
            "platform": platform.platform()}
    for name in ("torch", "numpy", "tvm_ffi"):
        module = sys.modules.get(name)
        if module is not None:
            info[name] = module.__version__
    info["configuration"] = lib.configuration()
    return info


def format_report(info: Any) -> str:
    """The facts as lines ready to print."""
    return "\n".join(f"{name}: {value}" for name, value in info.items())
