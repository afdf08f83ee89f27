# SPDX-License-Identifier: Apache-2.0
"""Attention in NVFP4. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    nvfp4_attention_sm120_fwd nvfp4_attention_sm120_quantize_qkv
""")
