# SPDX-License-Identifier: Apache-2.0
"""Times of torch on a CUDA device for cases of gpu_benchmark, measured in the same way.

Prints a table; with a file name, appends JSON lines {op, case, peer, peer_us, device} to it.
"""
import json
import statistics
import sys

import torch
import torch.nn.functional as F

FLUSHED = torch.zeros(128 << 20, dtype=torch.bfloat16, device="cuda")


def median_us(run, samples=30):
    """Graph replays between events, each after the L2 cache was filled with clean lines."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        times = []
        for i in range(samples + 3):
            FLUSHED.sum()
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            begin.record(stream)
            graph.replay()
            end.record(stream)
            stream.synchronize()
            if i >= 3:
                times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


def rows(num_rows, size):
    x = torch.randn(num_rows, size, device="cuda").bfloat16()
    residual = torch.randn_like(x)
    weight = torch.randn(size, device="cuda").bfloat16()
    gated = torch.randn(num_rows, 2 * size, device="cuda").bfloat16()
    case = f"{num_rows}x{size}"
    yield "rmsnorm", case, lambda: F.rms_norm(x, (size,), weight)

    def fused_add():
        residual.add_(x)
        F.rms_norm(residual, (size,), weight)

    yield "fused_add_rmsnorm", case, fused_add
    yield "silu_and_mul", case, lambda: F.silu(gated[:, :size]) * gated[:, size:]


def decode(num_requests, kv_len, num_qo_heads, num_kv_heads, head_dim):
    """SDPA over keys that lie one after another: torch has no paged cache."""
    q = torch.randn(num_requests, num_qo_heads, 1, head_dim, device="cuda").bfloat16()
    shape = (num_requests, num_kv_heads, kv_len, head_dim)
    k = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    v = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    return lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def sampling(num_rows, vocab_size=128256):
    logits = 3 * torch.randn(num_rows, vocab_size, device="cuda")
    probs = torch.softmax(logits, -1)
    case = f"B{num_rows} V{vocab_size}"
    yield "softmax", case, lambda: torch.softmax(logits / 0.7, -1)
    yield "argmax", case, lambda: torch.argmax(logits, -1)
    yield "sampling_from_probs", case, lambda: torch.multinomial(probs, 1)
    yield "top_k", case + " k 50 sorted", lambda: torch.topk(logits, 50)

    def top_p():
        """Sorts, cuts where 0.9 is reached, and draws by the exponential race."""
        sorted_probs, tokens = probs.sort(-1, descending=True)
        before = sorted_probs.cumsum(-1) - sorted_probs
        sorted_probs.masked_fill_(before >= 0.9, 0)
        noise = torch.empty_like(sorted_probs).exponential_()
        return tokens.gather(-1, (sorted_probs / noise).argmax(-1, keepdim=True))

    yield "sampling_from_probs", case + " top_p 0.9", top_p


def main():
    file = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    name = torch.cuda.get_device_name()

    def report(op, case, run):
        try:
            us = median_us(run)
        except RuntimeError as error:
            print(f"{op} {case}: {str(error).splitlines()[0]}", file=sys.stderr)
            return
        print(f"{op + ' ' + case:44} {us:9.2f} us", flush=True)
        if file:
            row = {"op": op, "case": case, "peer": f"torch {torch.__version__}", "peer_us": us,
                   "device": name}
            file.write(json.dumps(row) + "\n")

    for shape in [(1, 4096), (128, 8192), (8192, 8192)]:
        for op, case, run in rows(*shape):
            report(op, case, run)
    for num_rows in [1, 64, 256]:
        for op, case, run in sampling(num_rows):
            report(op, case, run)
    for b, s, hq, hkv, d in [(1, 8192, 64, 8, 128), (16, 8192, 64, 8, 128), (64, 4096, 32, 32, 128)]:
        report("batch_decode", f"B{b} S{s} {hq}/{hkv}/{d} without pages", decode(b, s, hq, hkv, d))


if __name__ == "__main__":
    main()
