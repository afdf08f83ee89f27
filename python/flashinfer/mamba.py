# SPDX-License-Identifier: Apache-2.0
"""State space models. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    selective_state_update checkpointing_ssu
""", classes="""
    SSDCombined
""")
