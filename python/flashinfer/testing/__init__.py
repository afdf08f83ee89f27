# SPDX-License-Identifier: Apache-2.0
"""Timing of kernels and counting of their work, for benchmarks and test suites."""
from .utils import (
    attention_flops,
    attention_flops_with_actual_seq_lens,
    attention_tb_per_sec,
    attention_tb_per_sec_with_actual_seq_lens,
    attention_tflops_per_sec,
    attention_tflops_per_sec_with_actual_seq_lens,
    bench_gpu_time,
    bench_gpu_time_with_cuda_event,
    bench_gpu_time_with_cudagraph,
    bench_gpu_time_with_cupti,
    bench_kineto,
    calculate_rotation_count,
    count_bytes,
    dequantize_fp8,
    get_l2_cache_size,
    per_block_cast_to_fp8,
    per_token_cast_to_fp8,
    quantize_fp8,
    set_seed,
    sleep_after_kernel_run,
)
