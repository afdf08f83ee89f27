# SPDX-License-Identifier: Apache-2.0
"""Attention in float64 NumPy, one query and head at a time: the oracle of the attention tests."""
import numpy as np


def rotated(x, position, scale=1.0, theta=1e4):
    """`x` [head_dim] with its halves rotated as at `position`."""
    half = len(x) // 2
    angle = position / scale * theta ** (-2.0 * np.arange(half) / len(x))
    a, b = x[:half], x[half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle),
                           b * np.cos(angle) + a * np.sin(angle)])


def slopes(num_heads):
    """The slopes of ALiBi (Press et al., 2022)."""
    power = 1 << (num_heads.bit_length() - 1)
    first = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    rest = [2.0 ** (-4.0 * (2 * i + 1) / power) for i in range(num_heads - power)]
    return np.array(first + rest)


def visible(i, q_len, kv_len, *, causal=False, window_left=-1, mask=None):
    """Which keys query i sees, bool [kv_len]."""
    keys = np.arange(kv_len)
    position = kv_len - q_len + i
    seen = mask[i].astype(bool) if mask is not None else np.ones(kv_len, bool)
    if causal and mask is None:
        seen &= keys <= position
    if window_left >= 0:
        seen &= keys >= position - window_left
    return seen


def attention(q, k, v, *, causal=False, window_left=-1, mask=None, sm_scale=None, soft_cap=0.0,
              encoding="NONE", rope_scale=1.0, rope_theta=1e4, sinks=None):
    """(out [q_len, heads, dim], lse [q_len, heads], base 2) of one request, NHD."""
    q_len, heads, dim = q.shape
    kv_len, kv_heads = k.shape[:2]
    scale = dim**-0.5 if sm_scale is None else sm_scale
    out = np.zeros((q_len, heads, v.shape[2]))
    lse = np.full((q_len, heads), -np.inf)
    for h in range(heads):
        g = h // (heads // kv_heads)
        keys = k[:, g]
        if encoding == "ROPE_LLAMA":
            keys = np.array([rotated(key, j, rope_scale, rope_theta)
                             for j, key in enumerate(keys)]).reshape(keys.shape)
        for i in range(q_len):
            query = q[i, h]
            if encoding == "ROPE_LLAMA":
                query = rotated(query, kv_len - q_len + i, rope_scale, rope_theta)
            scores = keys @ query * scale
            if encoding == "ALIBI":
                scores = scores + slopes(heads)[h] * (np.arange(kv_len) - i)
            if soft_cap > 0:
                scores = soft_cap * np.tanh(scores / soft_cap)
            seen = visible(i, q_len, kv_len, causal=causal, window_left=window_left, mask=mask)
            out[i, h], lse[i, h] = softmax_sum(scores[seen], v[seen, g],
                                               None if sinks is None else sinks[h])
    return out, lse


def softmax_sum(scores, values, sink=None):
    """(softmax(scores) · values, log2 of the sum); 0 and -inf of no key, sink or not."""
    logits = scores if sink is None else np.append(scores, sink)
    if len(scores) == 0:
        return np.zeros(values.shape[1]), -np.inf
    top = logits.max()
    total = np.exp(logits - top).sum()
    weights = np.exp(scores - top) / total
    return weights @ values, (top + np.log(total)) / np.log(2)


class PagedBatch:
    """Requests of random keys and values, scattered over a pool whose other slots are poison."""

    def __init__(self, rng, kv_lens, *, page_size, heads, dim, dim_vo=None, layout="NHD",
                 dtype="float16", tensors, spare=3, is_pair=False):
        self.kv_lens = list(kv_lens)
        pages = [-(-n // page_size) for n in kv_lens]
        pool = sum(pages) + spare
        ids = rng.permutation(pool)[:sum(pages)]
        shape = (pool, page_size, heads)
        dim_vo = dim if dim_vo is None else dim_vo
        self.k_pool = np.full((*shape, dim), np.nan)
        self.v_pool = np.full((*shape, dim_vo), np.nan)
        self.indptr = np.concatenate([[0], np.cumsum(pages)]).astype(np.int32)
        self.indices = ids.astype(np.int32)
        self.last_page_len = np.array([(n - 1) % page_size + 1 if n else 1 for n in kv_lens],
                                      np.int32)
        self.slots = []
        for b, n in enumerate(kv_lens):
            t = np.arange(n)
            slots = (ids[self.indptr[b] + t // page_size], t % page_size)
            self.k_pool[slots] = rng.standard_normal((n, heads, dim))
            self.v_pool[slots] = rng.standard_normal((n, heads, dim_vo))
            self.slots.append(slots)
        axes = (0, 1, 2, 3) if layout == "NHD" else (0, 2, 1, 3)
        k = tensors.make(self.k_pool.transpose(axes), dtype)
        v = tensors.make(self.v_pool.transpose(axes), dtype)
        self.k_pool = tensors.read(k).transpose(axes)
        self.v_pool = tensors.read(v).transpose(axes)
        if is_pair or dim != dim_vo:
            self.cache = (k, v)
        else:
            self.cache = tensors.make(np.stack([self.k_pool.transpose(axes),
                                                self.v_pool.transpose(axes)], axis=1), dtype)

    def tables(self, tensors):
        """indptr, indices, last_page_len as tensors."""
        return [tensors.make(t) for t in (self.indptr, self.indices, self.last_page_len)]

    def keys(self, b):
        return self.k_pool[self.slots[b]]

    def values(self, b):
        return self.v_pool[self.slots[b]]


# Of sums over keys whose inputs are rounded to a dtype, for outputs of up to 1; of larger ones, as
# many times as much.
TOLERANCE = {"float32": 2e-5, "float16": 3e-3, "bfloat16": 2e-2, "float8_e4m3fn": 0.1,
             "float8_e5m2": 0.2}


def check_attention(tensors, out, lse, expected, dtype, lse_limit=2e-3):
    """Raises where out or lse (which may be None) is off, or is NaN."""
    o, s = expected
    actual = tensors.read(out)
    assert actual.shape == o.shape
    assert np.isfinite(actual).all(), "out is not finite"
    worst = (np.abs(actual - o) / np.maximum(np.abs(o), 1)).max(initial=0)
    assert worst <= TOLERANCE[dtype], f"out is off by {worst}"
    if lse is None:
        return
    got = tensors.read(lse)
    assert got.shape == s.shape
    assert (np.isneginf(got) == np.isneginf(s)).all(), "lse is -inf in other places"
    finite = np.isfinite(s)
    worst = np.abs(got[finite] - s[finite]).max(initial=0)
    assert worst <= lse_limit + 1e-5 * np.abs(s[finite]).max(initial=0), f"lse is off by {worst}"
