# SPDX-License-Identifier: Apache-2.0
"""The attention kernels under the names of the original's modules."""
from . import variants
from .modules import *
