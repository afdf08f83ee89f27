# SPDX-License-Identifier: Apache-2.0
"""Operators that the original also has in Triton; here they are those of the library."""
from . import activation, cascade, norm, sm_constraint_gemm
