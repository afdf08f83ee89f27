# SPDX-License-Identifier: Apache-2.0
"""Products on a part of a device's multiprocessors: still to come."""
from .._pending import pending_names

pending_names(globals(), "gemm gemm_persistent gemm_descriptor_persistent")
