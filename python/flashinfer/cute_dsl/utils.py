# SPDX-License-Identifier: Apache-2.0
"""Whether kernels of CuTe DSL are here."""
from __future__ import annotations



def is_cute_dsl_available() -> bool:
    """False: they are not a part of this library."""
    return False
