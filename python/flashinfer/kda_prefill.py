# SPDX-License-Identifier: Apache-2.0
"""Kimi delta attention, prompts. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), classes="""
    RecurrentKDAPrefillWorkspace RecurrentKDAPrefillWrapper
""")
