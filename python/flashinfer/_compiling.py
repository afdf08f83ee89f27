# SPDX-License-Identifier: Apache-2.0
"""Whether calls of the library become torch ops, asked at each call without importing torch.

They do while torch.compile traces, and within :func:`flashinfer.torch_ops.as_torch_ops`.
"""
import sys


def _before_torch():
    global ask
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "compiler"):  # not there, or half imported
        return False
    ask = torch.compiler.is_compiling
    return torch.compiler.is_compiling()


def _always():
    return True


#: Called as ``_compiling.ask()``: what it is changes when torch appears.
ask = _before_torch
