# SPDX-License-Identifier: Apache-2.0
"""Quantisation to 8 and 4 bits, back, and packing of bits."""
from . import fp4_quantization, fp8_quantization, nvfp4_quantization_utils
from ..jit.modules import gen_quantization_module
from ..tllm_enums import SfLayout
from .bits import packbits, segment_packbits
from .fp4_quantization import (
    block_scale_interleave,
    e2m1_and_ufp8sf_scale_to_float,
    fp4_quantize,
    get_fp4_quantization_module,
    mxfp4_dequantize,
    mxfp4_dequantize_host,
    mxfp4_quantize,
    nvfp4_batched_quantize,
    nvfp4_block_scale_interleave,
    nvfp4_kv_dequantize,
    nvfp4_kv_dequantize_paged,
    nvfp4_kv_quantize,
    nvfp4_quantize,
    nvfp4_quantize_paged_kv_cache,
    scaled_fp4_grouped_quantize,
    shuffle_matrix_a,
    shuffle_matrix_sf_a,
    silu_and_mul_nvfp4_quantize,
)
from .fp8_quantization import (
    mxfp8_dequantize_host,
    mxfp8_grouped_quantize,
    mxfp8_quantize,
    per_token_group_quant_8bit,
)
