# SPDX-License-Identifier: Apache-2.0
"""Modules of the original that hold one operator each."""
from __future__ import annotations

from typing import Any

from .core import JitSpec, jit_spec_registry

_FIXED = ("sampling", "norm", "rope", "page", "cascade", "quantization", "topk", "gemm",
          "gemm_sm90")

__all__ = ["gen_act_and_mul_module"] + [f"gen_{name}_module" for name in _FIXED]


def spec_named(name: str, variant: Any = None, refusal: Any = None) -> JitSpec:
    """The spec of `name`, noted in the registry."""
    spec = JitSpec(name, variant=variant, refusal=refusal)
    jit_spec_registry.register(spec)
    return spec


def gen_act_and_mul_module(act_func_name: str) -> JitSpec:
    """The kernels of ``silu``, ``gelu`` or ``gelu_tanh`` with a product."""
    if act_func_name not in ("silu", "gelu", "gelu_tanh"):
        raise KeyError(f"act_func_name is {act_func_name!r}, accepted: silu, gelu, gelu_tanh")
    return spec_named(f"{act_func_name}_and_mul")


def _fixed_generator(name):
    def generator() -> JitSpec:
        return spec_named(name)

    generator.__name__ = generator.__qualname__ = f"gen_{name}_module"
    generator.__doc__ = f"The kernels of the module {name}."
    return generator


for _name in _FIXED:
    globals()[f"gen_{_name}_module"] = _fixed_generator(_name)
