# SPDX-License-Identifier: Apache-2.0
"""Attention that code of the caller's changes, written for the original's macros."""
import dataclasses
import functools

from .._binding import lib, made_for
from .arguments import number


@dataclasses.dataclass(frozen=True)
class Variant:
    """A struct in CUDA C++ and what it is given at each run; what ``build_and_load()`` of a
    ``gen_customize_…_module()`` returns. Kernels are compiled when it is first planned."""

    struct_name: str
    text: str
    tensor_names: tuple
    tensor_types: tuple
    scalar_names: tuple
    scalar_types: tuple
    transforms_output: bool = True  # false: as in the original's decode on CUDA cores

    @property
    def is_sinks(self):
        """Whether it is the variant of attention sinks, which is built in: its text, which stands
        in place of a source, is what engines hand back to us."""
        from ..jit.attention.variants import attention_sink_decl

        return self.text in attention_sink_decl.values()

    @functools.cached_property
    def made(self):
        """The library's object."""
        return made_for(self, lib.attention_variant_make(
            self.struct_name, self.text, self.tensor_names, self.tensor_types, self.scalar_names,
            self.scalar_types, self.transforms_output))

    def values(self, arguments):
        """(tensors, numbers) of a run's further arguments: the tensors, then the scalars."""
        names = self.tensor_names + self.scalar_names
        if len(arguments) != len(names):
            raise ValueError(f"run: got {len(arguments)} arguments for {self.struct_name}, "
                             f"expected {len(names)}: {', '.join(names)}")
        count = len(self.tensor_names)
        return list(arguments[:count]), [number(name, value) for name, value in
                                         zip(self.scalar_names, arguments[count:])]


def decode_variant_of(jit_args, use_tensor_cores, generator):
    """variant_of() for decode."""
    variant = variant_of(jit_args, None, generator)
    if variant is None:
        return None
    return dataclasses.replace(variant, transforms_output=use_tensor_cores)


def variant_of(jit_args, jit_kwargs, generator, *first):
    """What `jit_args` of a wrapper ask for, which `generator` takes behind `first`; None without.
    """
    if jit_args is None:
        if jit_kwargs:
            raise ValueError("jit_kwargs: is given without jit_args")
        return None
    spec = generator(*first, *jit_args, **(jit_kwargs or {}))
    return spec.build_and_load()
