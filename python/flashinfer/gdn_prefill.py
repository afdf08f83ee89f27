# SPDX-License-Identifier: Apache-2.0
"""Gated delta rule, prompts. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    chunk_gated_delta_rule
""", classes="""
    GatedDeltaRulePrefillWorkspace
""")
