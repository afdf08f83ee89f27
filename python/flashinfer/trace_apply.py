# SPDX-License-Identifier: Apache-2.0
"""Kernels of others in place of the library's. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="enable_apply disable_apply")
