# SPDX-License-Identifier: Apache-2.0
"""Times of calls on a GPU, each with a cold second-level cache unless told otherwise.

Where torch finds no GPU, calls are timed by the clock of the host. All times are milliseconds.
"""
from __future__ import annotations

import time
import warnings
from typing import Any
from .._tensors import Tensor

_CACHES = 5  # tensors this many times as large as the cache are taken to be cold


def get_l2_cache_size(device: Any = None) -> int:
    """Bytes of the second-level cache of a CUDA device."""
    import torch

    if device is None:
        device = torch.cuda.current_device()
    return torch.cuda.get_device_properties(device).L2_cache_size


def _cuda_tensors(value):
    """The tensors on CUDA devices in nested tuples, lists and dictionaries."""
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in _cuda_tensors(part)]
    if isinstance(value, dict):
        return _cuda_tensors(list(value.values()))
    return [value] if getattr(value, "is_cuda", False) else []


def calculate_rotation_count(tensors: list[Tensor], device: Any = None,
                             min_rotations: int = 2) -> int:
    """Copies of the arguments that calls must take turns with so that none is in the cache: 1 when
    they are much larger than it."""
    num_bytes = sum(t.numel() * t.element_size() for t in _cuda_tensors(tensors))
    wanted = _CACHES * get_l2_cache_size(device) if num_bytes else 0
    if num_bytes >= wanted:
        return 1
    return max(min_rotations, -(-wanted // num_bytes) + 1)


def _copied(value):
    """`value` with copies of the tensors on CUDA devices, of the same strides."""
    import torch

    if isinstance(value, (tuple, list)):
        return type(value)(_copied(part) for part in value)
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if not getattr(value, "is_cuda", False):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return copy.copy_(value.detach())


def _call_of(fn, input_args, input_kwargs):
    input_kwargs = input_kwargs or {}
    return lambda: fn(*input_args, **input_kwargs)


def _has_gpu():
    import torch

    return torch.cuda.is_available()


def _counts(call_ms, dry_run_iters, repeat_iters, dry_run_time_ms, repeat_time_ms):
    """Calls to warm up with and to measure: as given, or as many as the times allow."""
    call_ms = max(call_ms, 1e-3)
    dry_runs = max(1, int(dry_run_time_ms / call_ms)) if dry_run_iters is None else dry_run_iters
    repeats = max(1, int(repeat_time_ms / call_ms)) if repeat_iters is None else repeat_iters
    return dry_runs, repeats


def _host_times(call, dry_run_iters, repeat_iters, dry_run_time_ms, repeat_time_ms):
    def timed():
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3

    timed()
    dry_runs, repeats = _counts(timed(), dry_run_iters, repeat_iters, dry_run_time_ms,
                                repeat_time_ms)
    for _ in range(dry_runs):
        call()
    return [timed() for _ in range(repeats)]


def _event_times(calls, flush):
    """Times of `calls` by CUDA events, with `flush` before each."""
    import torch

    starts, ends = ([torch.cuda.Event(enable_timing=True) for _ in calls] for _ in range(2))
    for call, start, end in zip(calls, starts, ends):
        flush()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in zip(starts, ends)]


def _flush_of(cold_l2_cache, l2_flush, l2_flush_size_mb, l2_flush_device):
    """A function that fills the cache with something else, or does nothing."""
    import torch

    if l2_flush is not None:
        cold_l2_cache = l2_flush
    if not cold_l2_cache:
        return lambda: None
    num_bytes = (l2_flush_size_mb << 20 if l2_flush_size_mb is not None
                 else 2 * get_l2_cache_size(l2_flush_device))
    return torch.empty(num_bytes, dtype=torch.int8, device=l2_flush_device or "cuda").zero_


def bench_gpu_time_with_cuda_event(fn: Any, dry_run_iters: int | None = None,
                                   repeat_iters: int | None = None, dry_run_time_ms: int = 25,
                                   repeat_time_ms: int = 100, l2_flush: bool | None = None,
                                   l2_flush_size_mb: int | None = None,
                                   l2_flush_device: str | None = None,
                                   sleep_after_run: bool = False, input_args: tuple[int, ...] = (),
                                   input_kwargs: Any = None, cold_l2_cache: bool = True,
                                   aggregate_op: Any = max) -> list[float]:
    """Times of single calls by CUDA events.

    Args:
        fn: called with `input_args` and `input_kwargs`.
        dry_run_iters: calls before the measurement; None: as many as take `dry_run_time_ms`.
        repeat_iters: calls that are measured; None: as many as take `repeat_time_ms`.
        l2_flush: in place of `cold_l2_cache`, when given.
        l2_flush_size_mb: bytes written between calls, in 2^20; None: twice the cache.
        sleep_after_run: sleeps after each call, see sleep_after_kernel_run().
        cold_l2_cache: writes over the cache before each call.
        aggregate_op: accepted: a call has one time here.

    Returns:
        A list of milliseconds, one a call.
    """
    call = _call_of(fn, input_args, input_kwargs)
    if not _has_gpu():
        return _host_times(call, dry_run_iters, repeat_iters, dry_run_time_ms, repeat_time_ms)
    flush = _flush_of(cold_l2_cache, l2_flush, l2_flush_size_mb, l2_flush_device)
    call()
    call_ms = sum(_event_times([call] * 5, flush)) / 5
    dry_runs, repeats = _counts(call_ms, dry_run_iters, repeat_iters, dry_run_time_ms,
                                repeat_time_ms)
    for _ in range(dry_runs):
        call()
    if not sleep_after_run:
        return _event_times([call] * repeats, flush)
    return [_slept(_event_times([call], flush)[0]) for _ in range(repeats)]


def _slept(milliseconds):
    from .utils import sleep_after_kernel_run

    sleep_after_kernel_run(milliseconds)
    return milliseconds


def bench_gpu_time_with_cudagraph(fn: Any, dry_run_iters: int | None = None,
                                  repeat_iters: int | None = None, dry_run_time_ms: int = 25,
                                  repeat_time_ms: int = 100, num_iters_within_graph: int = 10,
                                  l2_flush: bool | None = None, l2_flush_size_mb: int | None = None,
                                  l2_flush_device: str | None = None, sleep_after_run: bool = False,
                                  input_args: tuple[int, ...] = (), input_kwargs: Any = None,
                                  cold_l2_cache: bool = True,
                                  aggregate_op: Any = max) -> list[float]:
    """Times of calls that a CUDA graph makes one after another, each the mean of a graph.

    With a cold cache the calls take turns with copies of their arguments; see
    bench_gpu_time_with_cuda_event() for the arguments.

    Args:
        num_iters_within_graph: calls in the graph.
    """
    import torch

    if not _has_gpu():
        return _host_times(_call_of(fn, input_args, input_kwargs), dry_run_iters, repeat_iters,
                           dry_run_time_ms, repeat_time_ms)
    if l2_flush is not None:
        cold_l2_cache = l2_flush
    arguments = (input_args, input_kwargs or {})
    rotations = calculate_rotation_count(arguments) if cold_l2_cache else 1
    rotations = min(rotations, num_iters_within_graph)
    copies = [arguments] + [_copied(arguments) for _ in range(rotations - 1)]
    calls = [_call_of(fn, *copies[i % rotations]) for i in range(num_iters_within_graph)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        calls[0]()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times = bench_gpu_time_with_cuda_event(
        graph.replay, dry_run_iters, repeat_iters, dry_run_time_ms, repeat_time_ms,
        l2_flush_size_mb=l2_flush_size_mb, l2_flush_device=l2_flush_device,
        sleep_after_run=sleep_after_run, cold_l2_cache=cold_l2_cache)
    return [milliseconds / num_iters_within_graph for milliseconds in times]


def bench_gpu_time_with_cupti(fn: Any, dry_run_iters: int | None = None,
                              repeat_iters: int | None = None, dry_run_time_ms: int = 25,
                              repeat_time_ms: int = 100, l2_flush: bool | None = None,
                              l2_flush_size_mb: int | None = None,
                              l2_flush_device: str | None = None, sleep_after_run: bool = False,
                              use_cuda_graph: bool = False, input_args: tuple[int, ...] = (),
                              input_kwargs: Any = None, cold_l2_cache: bool = True,
                              aggregate_op: Any = max) -> list[float]:
    """Warns that CUPTI is not used, then measures with a CUDA graph or events."""
    warnings.warn("CUPTI is not used: times are those of CUDA events, launches included",
                  stacklevel=2)
    bench = bench_gpu_time_with_cudagraph if use_cuda_graph else bench_gpu_time_with_cuda_event
    return bench(fn, dry_run_iters, repeat_iters, dry_run_time_ms, repeat_time_ms,
                 l2_flush=l2_flush, l2_flush_size_mb=l2_flush_size_mb,
                 l2_flush_device=l2_flush_device, sleep_after_run=sleep_after_run,
                 input_args=input_args, input_kwargs=input_kwargs, cold_l2_cache=cold_l2_cache)


def bench_gpu_time(fn: Any, dry_run_iters: int | None = None, repeat_iters: int | None = None,
                   dry_run_time_ms: int = 25, repeat_time_ms: int = 100,
                   l2_flush: bool | None = None, l2_flush_size_mb: int | None = None,
                   l2_flush_device: str | None = None, sleep_after_run: bool = False,
                   enable_cupti: bool = False, use_cuda_graph: bool = False,
                   num_iters_within_graph: int = 10, input_args: tuple[int, ...] = (),
                   input_kwargs: Any = None, cold_l2_cache: bool = True,
                   aggregate_op: Any = max) -> list[float]:
    """Times of a call, by whichever of the functions above the flags ask for.

    Returns:
        A list of milliseconds.
    """
    options = dict(l2_flush=l2_flush, l2_flush_size_mb=l2_flush_size_mb,
                   l2_flush_device=l2_flush_device, sleep_after_run=sleep_after_run,
                   input_args=input_args, input_kwargs=input_kwargs, cold_l2_cache=cold_l2_cache,
                   aggregate_op=aggregate_op)
    counts = (fn, dry_run_iters, repeat_iters, dry_run_time_ms, repeat_time_ms)
    if enable_cupti:
        return bench_gpu_time_with_cupti(*counts, use_cuda_graph=use_cuda_graph, **options)
    if use_cuda_graph:
        return bench_gpu_time_with_cudagraph(*counts, num_iters_within_graph, **options)
    return bench_gpu_time_with_cuda_event(*counts, **options)


def bench_kineto(fn: Any, kernel_names: Any, num_tests: int = 30,
                 suppress_kineto_output: bool = False, trace_path: Any = None,
                 flush_l2: bool = True, with_multiple_kernels: bool = False) -> Any:
    """Seconds that kernels take, by torch's profiler; needs a CUDA device.

    Args:
        fn: called without arguments.
        kernel_names: a part of a kernel's name, or a tuple of such.
        num_tests: calls.
        suppress_kineto_output: accepted: nothing is printed.
        trace_path: a file for the trace, or None.
        flush_l2: writes over the cache before each call.
        with_multiple_kernels: a name may be that of several kernels, whose times are added.

    Returns:
        The mean of a launch, or a tuple of them; 0 for a kernel that did not run.
    """
    import torch

    if not _has_gpu():
        raise RuntimeError("bench_kineto needs a CUDA device, and torch finds none")
    flush = _flush_of(flush_l2, None, None, None)
    fn()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(num_tests):
            flush()
            fn()
        torch.cuda.synchronize()
    if trace_path is not None:
        profiler.export_chrome_trace(trace_path)
    rows = profiler.key_averages()
    names = (kernel_names,) if isinstance(kernel_names, str) else tuple(kernel_names)
    seconds = tuple(_kernel_seconds(rows, name, with_multiple_kernels) for name in names)
    return seconds[0] if isinstance(kernel_names, str) else seconds


def _kernel_seconds(rows, name, with_multiple_kernels):
    found = [row for row in rows if name in row.key]
    if len(found) > 1 and not with_multiple_kernels:
        raise ValueError(f"kernel_names: {name!r} is a part of {len(found)} names")
    return sum(row.device_time_total / row.count for row in found) / 1e6
