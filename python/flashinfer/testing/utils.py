# SPDX-License-Identifier: Apache-2.0
"""All names of flashinfer.testing, where the original has them."""
from __future__ import annotations

import random
import time
from typing import Any

from .attention_work import (
    attention_flops,
    attention_flops_with_actual_seq_lens,
    attention_tb_per_sec,
    attention_tb_per_sec_with_actual_seq_lens,
    attention_tflops_per_sec,
    attention_tflops_per_sec_with_actual_seq_lens,
)
from .fp8_tensors import (
    dequantize_fp8,
    per_block_cast_to_fp8,
    per_token_cast_to_fp8,
    quantize_fp8,
)
from .timing import (
    bench_gpu_time,
    bench_gpu_time_with_cuda_event,
    bench_gpu_time_with_cudagraph,
    bench_gpu_time_with_cupti,
    bench_kineto,
    calculate_rotation_count,
    get_l2_cache_size,
)


def set_seed(random_seed: int) -> None:
    """Seeds Python's, NumPy's and torch's random numbers, on all devices."""
    import numpy
    import torch

    random.seed(random_seed)
    numpy.random.seed(random_seed)
    torch.manual_seed(random_seed)


def sleep_after_kernel_run(execution_time: Any) -> None:
    """Lets a device cool down: five times `execution_time` (milliseconds), at most a second."""
    is_known = execution_time == execution_time and execution_time != float("inf")
    time.sleep(min(execution_time / 200, 1.0) if is_known else 0.01)


def count_bytes(*tensors: Any) -> int:
    """Bytes of all tensors; of tuples and lists, those of their parts; of None, 0."""
    total = 0
    for tensor in tensors:
        if isinstance(tensor, (tuple, list)):
            total += count_bytes(*tensor)
        elif tensor is not None:
            total += tensor.numel() * tensor.element_size()
    return total
