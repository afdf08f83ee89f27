# SPDX-License-Identifier: Apache-2.0
"""Kernels of CuTe DSL: not a part of this library."""
from .utils import is_cute_dsl_available
