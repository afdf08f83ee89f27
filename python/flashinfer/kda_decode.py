# SPDX-License-Identifier: Apache-2.0
"""Kimi delta attention, one token. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    fused_kda_decode packed_kda_decode recurrent_kda
""")
