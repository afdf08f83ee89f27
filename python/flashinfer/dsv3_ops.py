# SPDX-License-Identifier: Apache-2.0
"""Routing and products of DeepSeek-V3. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    fused_topk_deepseek
""")
