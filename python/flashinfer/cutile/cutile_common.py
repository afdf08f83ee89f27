# SPDX-License-Identifier: Apache-2.0
"""Whether kernels of cuda.tile are here."""


def is_cuda_tile_available():
    """False: they are not a part of this library."""
    return False
