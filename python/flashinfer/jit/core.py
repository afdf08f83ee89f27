# SPDX-License-Identifier: Apache-2.0
"""What stands for a kernel module of the original."""
from __future__ import annotations

import dataclasses
import pathlib
import typing
from typing import Any

from .._binding import lib
from .._errors import MissingJITCacheError
from . import env


@dataclasses.dataclass
class JitSpec:
    """A family of kernels under the name that the original gives it.

    There is nothing to build ahead: ``build_and_load()`` returns the library's functions, which
    compile what a call needs when it first needs it; of a user's variant, that variant.
    """

    name: str
    sources: list = dataclasses.field(default_factory=list)
    needs_device_linking: bool = False
    variant: typing.Any = None  # of a user: an attention.variant.Variant
    refusal: typing.Optional[str] = None  # why it cannot be built

    @property
    def is_compiled(self) -> bool:
        return True

    @property
    def is_aot(self) -> bool:
        return True

    @property
    def aot_path(self) -> Any:
        return env.FLASHINFER_AOT_DIR / self.name

    @property
    def jit_library_path(self) -> Any:
        return env.FLASHINFER_JIT_DIR / self.name

    @property
    def lock_path(self) -> Any:
        return env.FLASHINFER_JIT_DIR / "tmp" / f"{self.name}.lock"

    def get_library_path(self) -> Any:
        return self.aot_path

    def get_object_paths(self) -> list:
        return []

    def get_compile_commands(self) -> list:
        return []

    def build(self, verbose: bool = False, need_lock: bool = True) -> None:
        if self.refusal is not None:
            raise NotImplementedError(f"{self.name}: {self.refusal}")

    def build_and_load(self) -> Any:
        self.build()
        return lib if self.variant is None else self.variant

    def load(self, so_path: Any = None) -> Any:
        return self.build_and_load()

    def try_load(self) -> Any:
        return self.build_and_load()


@dataclasses.dataclass
class JitSpecStatus:
    name: str
    created_at: typing.Any
    is_compiled: bool
    library_path: typing.Optional[pathlib.Path]
    sources: list
    needs_device_linking: bool

    @property
    def status(self) -> Any:
        return "Compiled" if self.is_compiled else "Not compiled"


class JitSpecRegistry:
    """The specs that were asked for in this process."""

    def __init__(self) -> None:
        self._specs = {}

    def register(self, spec: Any) -> None:
        self._specs[spec.name] = spec

    def get_all_specs(self) -> list:
        return dict(self._specs)

    def get_spec_status(self, name: str) -> Any:
        spec = self._specs.get(name)
        if spec is None:
            return None
        return JitSpecStatus(name, None, spec.is_compiled, spec.get_library_path(), spec.sources,
                             spec.needs_device_linking)

    def get_all_statuses(self) -> list:
        return [self.get_spec_status(name) for name in self._specs]

    def get_stats(self) -> dict:
        compiled = sum(spec.is_compiled for spec in self._specs.values())
        return {"total": len(self._specs), "compiled": compiled,
                "not_compiled": len(self._specs) - compiled}


jit_spec_registry = JitSpecRegistry()


def gen_jit_spec(name: str, sources: Any, extra_cflags: Any = None, extra_cuda_cflags: Any = None,
                 extra_ldflags: Any = None, extra_include_paths: Any = None,
                 needs_device_linking: bool = False) -> None:
    """Not there: this library compiles no C++ of a user at run time.

    ``torch.utils.cpp_extension`` and ``tvm_ffi.cpp`` do.
    """
    raise NotImplementedError(f"gen_jit_spec({name!r}): this library compiles its own kernels "
                              "alone; tvm_ffi.cpp.load compiles files of yours")


def build_jit_specs(specs: Any, verbose: bool = False, skip_prebuilt: bool = True) -> None:
    """Accepts specs of this library; there is nothing to do ahead."""
    for spec in specs:
        spec.build(verbose)


def clear_cache_dir() -> Any:
    """Removes the compiled kernels from the cache folder; returns how many files."""
    return lib.clear_kernel_cache()
