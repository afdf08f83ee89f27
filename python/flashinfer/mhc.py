# SPDX-License-Identifier: Apache-2.0
"""Manifold-constrained hyper-connections. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    mhc_post mhc_pre_big_fuse mhc_pre_big_fuse_with_prenorm
""")
