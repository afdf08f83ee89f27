# SPDX-License-Identifier: Apache-2.0
"""Whether kernels of cuda.tile are here."""
from __future__ import annotations



def is_cuda_tile_available() -> bool:
    """False: they are not a part of this library."""
    return False
