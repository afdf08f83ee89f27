# SPDX-License-Identifier: Apache-2.0
"""Attention over several devices. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    get_parallel_groups ring_varlen_config split_varlen_input ulysses_varlen_config
    uneven_cp_config
""", classes="""
    ParallelAttention UnevenCPConfig VarlenCPConfig
""")
