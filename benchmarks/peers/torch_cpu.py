# SPDX-License-Identifier: Apache-2.0
"""Times of torch on the CPU for the cases that a benchmark program lists.

Reads lines of `op field=value …` on stdin, writes JSON lines {op, case, peer, peer_us}. Operators
and cases that torch has nothing for are left out.
"""
import json
import statistics
import sys
import time

import torch

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
COLD_BYTES = 256e6


def num_copies(*tensors):
    total = sum(t.numel() * t.element_size() for t in tensors)
    return max(1, min(1024, int(COLD_BYTES / total)))


def median_us(run, seconds=0.5):
    """As MedianUs() of harness.cc: samples of at least a millisecond, warmed up."""
    run(0)
    following, calls, samples = 1, 1, []
    start = time.perf_counter()
    while True:
        begin = time.perf_counter()
        for i in range(following, following + calls):
            run(i)
        took = time.perf_counter() - begin
        following += calls
        if took < 1e-3:
            calls *= 2
        elif time.perf_counter() - start > 0.2 * seconds:
            samples.append(took / calls)
        if len(samples) >= 5 and time.perf_counter() - start > 1.2 * seconds:
            return statistics.median(samples) * 1e6


def with_cold_outputs(run):
    """Keeps results until so many others are there that the memory of one has left the caches."""
    first = run(0)
    first = first if isinstance(first, tuple) else (first,)
    kept = [None] * num_copies(*first)

    def run_and_keep(i):
        kept[i % len(kept)] = run(i)
    return run_and_keep


def norm(case):
    dtype = DTYPES[case["dtype"]]
    size = int(case["hidden_size"])
    x = torch.randn(int(case["num_rows"]), size).to(dtype)
    weight = torch.randn(size).to(DTYPES[case["dtype_weight"]])
    if case["dtype_out"] not in DTYPES:  # fp8
        return None
    kind = case.get("kind", "rms")
    if kind == "layer":
        xs = [x.clone() for _ in range(num_copies(x, x))]
        return lambda i: torch.nn.functional.layer_norm(xs[i % len(xs)], (size,), weight, weight)
    weight = weight + 1 if kind == "gemma" else weight
    if case.get("adds_residual") != "1":
        xs = [x.clone() for _ in range(num_copies(x, x))]
        return lambda i: torch.nn.functional.rms_norm(xs[i % len(xs)], (size,), weight, 1e-6)
    pairs = [(x.clone(), torch.zeros_like(x)) for _ in range(num_copies(x, x, x, x))]

    def add_and_norm(i):
        x, residual = pairs[i % len(pairs)]
        return torch.nn.functional.rms_norm(residual.add_(x), (size,), weight, 1e-6)
    return add_and_norm


def activation(case):
    if case["dtype_out"] not in DTYPES:  # fp8
        return None
    functions = torch.nn.functional
    function = {"silu": functions.silu, "gelu": functions.gelu,
                "gelu_tanh": lambda x: functions.gelu(x, approximate="tanh")}
    function = function[case.get("kind", "silu")]
    gate_up = torch.randn(int(case["num_tokens"]), 2 * int(case["size"]))
    gate_up = gate_up.to(DTYPES[case["dtype"]])
    copies = [gate_up.clone() for _ in range(num_copies(gate_up))]

    def run(i):
        gate, up = copies[i % len(copies)].chunk(2, dim=-1)
        return function(gate) * up
    return run


def rope(case):
    """As models in torch do it, with cosines and sines ready: torch has no operator of its own."""
    dtype = DTYPES[case["dtype"]]
    if case.get("dtype_out", "bf16") not in DTYPES or case.get("interleaved") == "1":
        return None
    num_tokens, dim = int(case["num_tokens"]), int(case["head_dim"])
    heads = int(case["num_qo_heads"]), int(case["num_kv_heads"])
    q, k = (torch.randn(num_tokens, n, dim).to(dtype) for n in heads)
    cos, sin = torch.randn(num_tokens, 1, dim).to(dtype), torch.randn(num_tokens, 1, dim).to(dtype)
    copies = [(q.clone(), k.clone()) for _ in range(num_copies(q, k))]

    def rotate(x):
        half = torch.cat((-x[..., dim // 2:], x[..., :dim // 2]), dim=-1)
        return x * cos + half * sin

    def run(i):
        q, k = copies[i % len(copies)]
        return rotate(q), rotate(k)
    return run


def quantize(case):
    """torch has no operator of its own: the largest size, a division, a conversion."""
    dtype = DTYPES[case["dtype"]]
    rows, size, group = (int(case[n]) for n in ("num_rows", "hidden_size", "group_size"))
    x = torch.randn(rows, size).to(dtype)
    shape = (rows, size // group, group) if group else (1, 1, rows * size)
    copies = [x.clone().view(shape) for _ in range(num_copies(x))]
    is_fp8 = case["dtype_q"] == "e4m3"
    largest, dtype_q = (448.0, torch.float8_e4m3fn) if is_fp8 else (127.0, torch.int8)
    fixed = torch.tensor(0.01)

    def run(i):
        x = copies[i % len(copies)]
        scale = fixed
        if case.get("dynamic", "1") == "1":
            scale = x.abs().amax(dim=-1, keepdim=True).float() / largest
        q = (x / scale).clamp(-largest, largest)
        return (q if is_fp8 else q.round()).to(dtype_q), scale
    return run


def linear(case):
    dtype = DTYPES.get(case["format"])
    if dtype is None:  # torch has no GGUF blocks
        return None
    weight = torch.randn(int(case["rows"]), int(case["cols"])).to(dtype)
    x = torch.randn(int(case["num_tokens"]), int(case["cols"])).to(dtype)
    weights = [weight.clone() for _ in range(num_copies(weight))]
    return lambda i: torch.nn.functional.linear(x, weights[i % len(weights)])


def gemm(case):
    dtype = DTYPES.get(case["dtype_a"])
    if dtype is None:  # torch multiplies no fp8 here
        return None
    m, n, k = (int(case[name]) for name in ("m", "n", "k"))
    a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    copies = [(a.clone(), b.clone()) for _ in range(num_copies(a, b))]
    return lambda i: copies[i % len(copies)][0] @ copies[i % len(copies)][1].T


def rows(case, count, columns):
    x = torch.randn(count, columns).mul(3).to(DTYPES[case.get("dtype", "f32")])
    return [x.clone() for _ in range(num_copies(x))]


def kept_by_top_p(probs, top_p):
    """The usual sort: sorted probabilities, 0 after the prefix, and their tokens."""
    ordered, tokens = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    return ordered.masked_fill(before >= top_p, 0), tokens


def sampling(case):
    """Softmax, filters and a draw, as PyTorch engines on the CPU do them."""
    logits = rows(case, int(case["num_rows"]), int(case["vocab_size"]))
    top_k, top_p = int(case.get("top_k", 0)), float(case.get("top_p", 1))
    min_p = float(case.get("min_p", 0))

    def run(i):
        x = logits[i % len(logits)].float()
        tokens = None
        if top_k > 0:
            x, tokens = x.topk(top_k, dim=-1)
        probs = torch.softmax(x, dim=-1)
        if top_p < 1:
            kept, order = kept_by_top_p(probs, top_p)
            probs, tokens = kept, order if tokens is None else tokens.gather(-1, order)
        if min_p > 0:
            probs = probs.masked_fill(probs < min_p * probs.amax(-1, keepdim=True), 0)
        drawn = torch.multinomial(probs, 1)
        return drawn if tokens is None else tokens.gather(-1, drawn)
    return run


def token_filter(case):
    x = rows(case, int(case["num_rows"]), int(case["vocab_size"]))
    top_k, top_p = int(case.get("top_k", 0)), float(case.get("top_p", 1))
    if case["from_logits"] == "0":
        x = [t.exp() for t in x]

    def run(i):
        t = x[i % len(x)]
        if top_p < 1:
            kept, tokens = kept_by_top_p(t / t.sum(-1, keepdim=True), top_p)
            return torch.zeros_like(t).scatter_(-1, tokens, kept / kept.sum(-1, keepdim=True))
        values, tokens = t.topk(top_k, dim=-1)
        if case["from_logits"] == "1":
            return torch.full_like(t, float("-inf")).scatter_(-1, tokens, values)
        return torch.zeros_like(t).scatter_(-1, tokens, values / values.sum(-1, keepdim=True))
    return run


def topk(case):
    x = rows(case, int(case["num_rows"]), int(case["num_cols"]))
    k, is_sorted = int(case["k"]), case["sorted"] == "1"
    return lambda i: x[i % len(x)].topk(k, dim=-1, sorted=is_sorted)


def segment_gemm(case):
    dtype = DTYPES[case["dtype"]]
    segments, count = int(case["num_segments"]), int(case["num_rows"])
    x = torch.randn(segments, count, int(case["d_in"])).to(dtype)
    weights = torch.randn(int(case["num_weights"]), int(case["d_out"]), int(case["d_in"])).to(dtype)
    chosen = [i % len(weights) for i in range(segments)]
    return lambda i: torch.bmm(x, weights[chosen].transpose(1, 2))


def grouped_gemm(case):
    """As many rows in each group: a batch of products."""
    dtype = DTYPES.get(case["dtype_a"])
    if dtype is None:  # torch multiplies no fp8 here
        return None
    groups, count, n, k = (int(case[name]) for name in ("num_groups", "num_rows", "n", "k"))
    a = torch.randn(groups, count, k).to(dtype)
    b = torch.randn(groups, n, k).to(dtype)
    return lambda i: torch.bmm(a, b.transpose(1, 2))


def fastest(runs):
    """The run that takes the least time, each tried for a moment."""
    return min(runs, key=lambda run: median_us(run, 0.05))


def attention(case, is_causal):
    """Dense keys and values, in whichever form torch is fastest with; it has no paged cache.

    Its query and cache have one dtype: that of ours or of our cache. A decode's heads of a group
    may go as rows of one head, so that torch, too, reads the cache once.
    """
    heads, kv_heads, dim = (int(case[n]) for n in ("num_qo_heads", "num_kv_heads", "head_dim"))
    count, q_len, kv_len = (int(case[n]) for n in ("num_requests", "q_len", "kv_len"))
    group = heads // kv_heads
    mask = None
    if is_causal and q_len < kv_len:  # aligned to the last key; torch's own is to the first
        mask = torch.ones(q_len, kv_len, dtype=torch.bool).tril(kv_len - q_len)
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def form(dtype, groups):
        q = torch.randn(count, heads, q_len, dim).to(dtype)
        kv = torch.randn(count, kv_heads, kv_len, dim).to(dtype)
        if groups == "as rows":
            q = q.view(count, kv_heads, group, dim)
        elif groups == "repeated":
            kv = kv.repeat_interleave(group, dim=1)
        copies = [(kv.clone(), kv.clone()) for _ in range(num_copies(kv, kv))]
        return lambda i: sdpa(q, *copies[i % len(copies)], attn_mask=mask,
                              is_causal=is_causal and mask is None,
                              enable_gqa=groups == "in the operator")

    forms = ["in the operator", "repeated"] if is_causal else ["in the operator", "as rows"]
    dtypes = sorted({case["dtype"], case["dtype_kv"]} & set(DTYPES))
    return fastest([form(DTYPES[dtype], groups) for dtype in dtypes for groups in forms])


def batch_decode(case):
    return attention({**ATTENTION, **case}, False)


def batch_prefill(case):
    return attention({**ATTENTION, **case}, True)


# What a case's text leaves out, as in attention_batch.h.
ATTENTION = {"num_requests": 1, "q_len": 1, "num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128}

PEERS = {"norm": norm, "activation": activation, "rope": rope, "quantize": quantize,
         "linear": linear, "gemm": gemm,
         "sampling": sampling, "token_filter": token_filter, "topk": topk,
         "segment_gemm": segment_gemm, "grouped_gemm": grouped_gemm,
         "batch_decode": batch_decode, "batch_prefill": batch_prefill}


def main():
    for line in sys.stdin:
        op, _, text = line.strip().partition(" ")
        make = PEERS.get(op)
        run = make(dict(word.split("=") for word in text.split())) if make else None
        if run is None:
            continue
        with torch.no_grad():
            us = median_us(with_cold_outputs(run))
        print(json.dumps({"op": op, "case": text, "peer": "torch", "peer_us": us}), flush=True)


if __name__ == "__main__":
    main()
