# SPDX-License-Identifier: Apache-2.0
"""Attention whose softmax has a logit per head more: attention sinks (Xiao et al., 2023)."""


def is_sink_variant(jit_args):
    """Whether `jit_args` of a wrapper ask for the variant that is built in: its text, which stands
    in place of the original's C++ source, is what engines hand back to us."""
    if not jit_args:
        return False
    from ..jit.attention.variants import attention_sink_decl

    return jit_args[-1] in attention_sink_decl.values()
