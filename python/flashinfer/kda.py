# SPDX-License-Identifier: Apache-2.0
"""Kimi delta attention. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    recurrent_kda
""", classes="""
    RecurrentKDAPrefillWorkspace RecurrentKDAPrefillWrapper
""")
