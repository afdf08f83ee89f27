# SPDX-License-Identifier: Apache-2.0
"""Attention over KV caches: one module per feature; flashinfer.decode, flashinfer.prefill and
others are the original's names for groups of them."""
from ..jit.attention import gen_batch_attention_module
from .batch_attention import BatchAttention, BatchAttentionWithAttentionSinkWrapper
