# SPDX-License-Identifier: Apache-2.0
"""Variants that the library has built in, to be handed back as they are."""

# Attention sinks: exp(sink of the head) is added to the softmax's denominator.
attention_sink_decl = {"fa2": "flashinfer built-in variant: attention sink",
                       "fa3": "flashinfer built-in variant: attention sink"}
