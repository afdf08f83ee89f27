# SPDX-License-Identifier: Apache-2.0
"""The earlier place of flashinfer.quantization.fp8_quantization."""
from .quantization.fp8_quantization import *
