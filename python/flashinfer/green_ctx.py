# SPDX-License-Identifier: Apache-2.0
"""Parts of a device. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    split_device_green_ctx split_device_green_ctx_by_sm_count
""")
