# SPDX-License-Identifier: Apache-2.0
"""Kernels of cuda.tile: not a part of this library."""
from .cutile_common import is_cuda_tile_available
