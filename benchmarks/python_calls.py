# SPDX-License-Identifier: Apache-2.0
"""What calls from Python cost the host, with CUDA tensors of torch; where there is no device, with
those on the CPU, where the work itself is a part of each figure.

Prints a table; with a file name, appends JSON lines {op, case, host_us, over_launch_us, device} to
it. `over_launch_us` is what a call takes longer than the launch of an empty kernel from Python, on
the CPU than the smallest call of the library.
"""
import json
import platform
import statistics
import sys
import time

import torch

import flashinfer

CALLS = 100  # between synchronisations: fewer than a device's queue holds
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LARGE = 4096 if DEVICE == "cuda" else 64  # elements of a row: on the CPU, so few that calls count


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def host_us(call, calls=CALLS, rounds=15):
    """Of a call that only launches, in microseconds: the median of rounds."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append(1e6 * (time.perf_counter() - begin) / calls)
    return statistics.median(times)


def values(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16, device=DEVICE)


def row_operators():
    x, weight, residual, out = values(1, LARGE), values(LARGE), values(1, LARGE), values(1, LARGE)
    yield "rmsnorm", f"1x{LARGE}", lambda: flashinfer.rmsnorm(x, weight)
    yield "rmsnorm", f"1x{LARGE} out", lambda: flashinfer.rmsnorm(x, weight, out=out)
    yield ("fused_add_rmsnorm", f"1x{LARGE}",
           lambda: flashinfer.fused_add_rmsnorm(x, residual, weight))
    yield "silu_and_mul", f"1x{LARGE}", lambda: flashinfer.silu_and_mul(x)
    vocab_size = 32000 if DEVICE == "cuda" else 64
    logits = torch.randn(1, vocab_size, device=DEVICE)
    probs = torch.softmax(logits, -1)
    seed = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    yield ("sampling_from_probs", f"1x{vocab_size} seed",
           lambda: flashinfer.sampling.sampling_from_probs(probs, seed=seed, offset=seed))
    yield ("sampling_from_probs", f"1x{vocab_size}",
           lambda: flashinfer.sampling.sampling_from_probs(probs))


def pages(num_requests, kv_len, page_size, device):
    count = -(-kv_len // page_size)
    indptr = torch.arange(num_requests + 1, dtype=torch.int32, device=device) * count
    last = torch.full((num_requests,), (kv_len - 1) % page_size + 1, dtype=torch.int32,
                      device=device)
    return indptr, torch.arange(num_requests * count, dtype=torch.int32, device=DEVICE), last


def attention(num_requests=256, kv_len=64):
    sizes = (32, 8, 128, 16)
    cache = values(num_requests * 4, 2, 16, 8, 128)
    workspace = torch.empty(128 << 20, dtype=torch.uint8, device=DEVICE)
    q = values(num_requests, 32, 128)
    case = f"B{num_requests} {kv_len}"
    for device in dict.fromkeys(("cpu", DEVICE)):
        tables = pages(num_requests, kv_len, 16, device)
        rows = torch.arange(num_requests + 1, dtype=torch.int32, device=device)
        decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace)
        prefill = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace)

        def plan_decode():
            decode.plan(*tables, *sizes, q_data_type=torch.bfloat16)

        def plan_prefill():
            prefill.plan(rows, *tables, *sizes, causal=True, q_data_type=torch.bfloat16)

        yield "decode plan()", f"{case} {device}", plan_decode
        yield "prefill plan()", f"{case} {device}", plan_prefill
    one = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace)
    one.plan(*pages(1, kv_len, 16, "cpu"), *sizes, q_data_type=torch.bfloat16)
    first, out = q[:1], torch.empty_like(q[:1])
    yield "decode run()", f"B1 {kv_len}", lambda: one.run(first, cache)
    yield "decode run()", f"B1 {kv_len} out", lambda: one.run(first, cache, out=out)


def main():
    if DEVICE == "cuda":
        name, smallest = "torch.cuda._sleep(0)", lambda: torch.cuda._sleep(0)
    else:
        name, smallest = "num_threads()", flashinfer._binding.lib.num_threads
    launch = host_us(smallest)
    lines = [{"op": "launch", "case": name, "host_us": round(launch, 2)}]
    for group in (row_operators, attention):
        for op, case, call in group():
            us = host_us(call)
            line = {"op": op, "case": case, "host_us": round(us, 2)}
            if "plan" not in op:
                line["over_launch_us"] = round(us - launch, 2)
            lines.append(line)
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else platform.machine()
    for line in lines:
        print(f"{line['op']:22} {line['case']:20} {line['host_us']:8.2f} us "
              f"{line.get('over_launch_us', '')}")
    if len(sys.argv) > 1:
        with open(sys.argv[1], "a") as file:
            for line in lines:
                file.write(json.dumps({**line, "device": device, "torch": torch.__version__}) + "\n")


if __name__ == "__main__":
    main()
