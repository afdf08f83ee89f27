# SPDX-License-Identifier: Apache-2.0
"""The earlier place of flashinfer.quantization.fp4_quantization."""
from .quantization.fp4_quantization import *
from .tllm_enums import SfLayout
