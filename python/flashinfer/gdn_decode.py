# SPDX-License-Identifier: Apache-2.0
"""Gated delta rule, one token. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    gated_delta_rule_decode gated_delta_rule_decode_pretranspose gated_delta_rule_mtp
    gdn_fused_decode_step gdn_fused_decode_step_supported
""", classes="""
    GatedDeltaRuleDecodeWorkspace
""")
