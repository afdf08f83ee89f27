# SPDX-License-Identifier: Apache-2.0
"""Time lines within kernels. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    decode_tag export_to_perfetto_trace
""", classes="""
    EventType
""")
