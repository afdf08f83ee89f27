# SPDX-License-Identifier: Apache-2.0
"""Functions that the original has in CuTe DSL, by the library's own kernels."""
from ..fp4_norm import add_rmsnorm_fp4quant, rmsnorm_fp4quant
from .utils import is_cute_dsl_available
