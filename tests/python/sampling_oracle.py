# SPDX-License-Identifier: Apache-2.0
"""What sampling must give, in float64 NumPy: filters by sorting, and the random source."""
import numpy as np


def softmax(logits, temperature=1.0):
    scaled = logits / temperature
    grown = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return grown / grown.sum(axis=-1, keepdims=True)


def order(probs):
    """Columns by (probability descending, index ascending)."""
    return np.argsort(-probs, kind="stable")


def top_k(probs, k):
    """One row with the k largest kept and divided by their sum; 0 keeps all."""
    kept = np.zeros_like(probs)
    chosen = order(probs)[:k or len(probs)]
    kept[chosen] = probs[chosen]
    return kept / kept.sum()


def top_p(probs, p):
    """One row with the shortest prefix that reaches p, divided by its sum."""
    chosen = order(probs)
    reached = np.cumsum(probs[chosen]) >= p * probs.sum() * (1 - 1e-12)
    count = int(np.argmax(reached)) + 1 if reached.any() else len(probs)
    kept = np.zeros_like(probs)
    kept[chosen[:count]] = probs[chosen[:count]]
    return kept / kept.sum()


def min_p(probs, least):
    kept = np.where(probs >= least * probs.max(), probs, 0)
    return kept / kept.sum()


def joint(probs, k, p):
    """One row with what both filters keep of the original probabilities."""
    kept = np.where((top_k(probs, k) > 0) & (top_p(probs, p) > 0), probs, 0)
    return kept / kept.sum()


def philox_uniform(seed, subsequence, offset):
    """(word + 1) / 2^32 of Philox4x32-10 (Salmon et al., 2011), as cuRAND counts its words."""
    words = [offset // 4 & 0xFFFFFFFF, offset // 4 >> 32, subsequence & 0xFFFFFFFF,
             subsequence >> 32]
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [second >> 32 ^ words[1] ^ keys[0], second & 0xFFFFFFFF,
                 first >> 32 ^ words[3] ^ keys[1], first & 0xFFFFFFFF]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return (words[offset % 4] + 1) / 2**32


def draw(probs, uniform, margin=1e-6):
    """The tokens that a row may give: two where `uniform` is within `margin` of a border."""
    sums = np.cumsum(probs) / probs.sum()
    low = np.searchsorted(sums, uniform - margin)
    high = np.searchsorted(sums, min(uniform + margin, 1 - 1e-15))
    return {t for t in range(low, high + 1) if probs[t] > 0}


def chi_square_limit(degrees):
    """What a chi-square variable stays under with a probability of 1 - 1e-6 (Wilson-Hilferty)."""
    if degrees == 0:
        return 0
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + 4.753 * spread**0.5) ** 3


def chi_square(counts, probs):
    """The statistic of `counts` against `probs`, and its limit; bins that expect < 5 are merged."""
    expected = probs / probs.sum() * counts.sum()
    small = expected < 5
    counts = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    if expected[-1] < 5:
        counts[-2] += counts[-1]
        expected[-2] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    return ((counts - expected) ** 2 / expected).sum(), chi_square_limit(len(counts) - 1)
