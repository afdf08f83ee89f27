# SPDX-License-Identifier: Apache-2.0
"""The original's entry points to cuDNN's attention, on kernels of our own."""
from . import decode, prefill
from .decode import cudnn_batch_decode_with_kv_cache
from .prefill import cudnn_batch_prefill_with_kv_cache
