# SPDX-License-Identifier: Apache-2.0
"""A small engine over a paged KV cache: continuous batching of prompts and decodes, in NumPy.

The model is a two-layer Llama with random weights, so what it says means nothing; the parts are
those of a real engine.
"""
import dataclasses

import numpy as np

import flashinfer
from flashinfer.logits_processor import LogitsPipe, Sample, Softmax, Temperature, TopK, TopP

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, LAYERS, VOCAB = 256, 4, 2, 64, 512, 2, 1000
PAGE_SIZE = 16


def random_weights(seed=0):
    """The weights by name; those of layers have an index."""
    rng = np.random.default_rng(seed)

    def matrix(rows, columns):
        return (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    weights = {"embedding": matrix(VOCAB, HIDDEN) * 20, "head": matrix(HIDDEN, VOCAB) * 3,
               "norm": np.ones(HIDDEN, np.float32)}
    for i in range(LAYERS):
        weights.update({
            f"norm1.{i}": np.ones(HIDDEN, np.float32), f"norm2.{i}": np.ones(HIDDEN, np.float32),
            f"qkv.{i}": matrix(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD_DIM),
            f"o.{i}": matrix(HEADS * HEAD_DIM, HIDDEN), f"up.{i}": matrix(HIDDEN, 2 * INNER),
            f"down.{i}": matrix(INNER, HIDDEN)})
    return weights


@dataclasses.dataclass
class Request:
    """A prompt and what was generated after it."""

    tokens: list
    num_wanted: int
    seed: int = 0
    temperature: float = 1.0
    num_cached: int = 0  # of its tokens, those with keys and values in the cache
    pages: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.num_prompt = len(self.tokens)

    def is_done(self):
        return len(self.tokens) - self.num_prompt >= self.num_wanted


class Engine:
    """Serves requests; each step() runs the new tokens of all of them as one batch."""

    def __init__(self, weights, num_pages=64):
        self.weights = weights
        shape = (num_pages, 2, PAGE_SIZE, KV_HEADS, HEAD_DIM)
        self.caches = [np.zeros(shape, np.float32) for _ in range(LAYERS)]
        self.free_pages = list(range(num_pages))
        self.running = []
        self.attention = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            np.zeros(1 << 22, np.uint8))
        self.sample = LogitsPipe([Temperature(), Softmax(), TopK(), TopP(), Sample()])

    def add(self, request):
        self.running.append(request)

    def step(self):
        """One pass of the model; each request gets one more token."""
        batch = self._plan()
        logits = self._forward(batch)
        tokens = self.sample(
            logits, temperature=np.array([r.temperature for r in self.running], np.float32),
            top_k=50, top_p=0.95,
            # A seed per row, so that neighbours in the batch do not change a request's tokens.
            seed=np.array([r.seed for r in self.running], np.int64),
            offset=np.array([len(r.tokens) for r in self.running], np.int64))
        for request, token in zip(self.running, tokens):
            request.num_cached = len(request.tokens)
            request.tokens.append(int(token))
        for request in [r for r in self.running if r.is_done()]:
            self.free_pages += request.pages
            self.running.remove(request)

    def _plan(self):
        """Gives each request its pages, and plans the attention of the batch."""
        q_lens, pages, page_indptr, last_page_lens = [], [], [0], []
        for request in self.running:
            length = len(request.tokens)
            while len(request.pages) * PAGE_SIZE < length:
                request.pages.append(self.free_pages.pop())
            q_lens.append(length - request.num_cached)
            pages += request.pages
            page_indptr.append(len(pages))
            last_page_lens.append((length - 1) % PAGE_SIZE + 1)
        tables = [np.array(x, np.int32) for x in (page_indptr, pages, last_page_lens)]
        q_indptr = np.concatenate([[0], np.cumsum(q_lens)]).astype(np.int32)
        self.attention.plan(q_indptr, *tables, HEADS, KV_HEADS, HEAD_DIM, PAGE_SIZE, causal=True,
                            q_data_type="float32")
        tokens = np.concatenate([r.tokens[r.num_cached:] for r in self.running])
        seq_lens = flashinfer.get_seq_lens(tables[0], tables[2], PAGE_SIZE)
        rows, positions = flashinfer.get_batch_indices_positions(q_indptr, seq_lens, len(tokens))
        return tokens, rows, positions, tables, q_indptr[1:] - 1

    def _forward(self, batch):
        """Logits of the last token of each request."""
        tokens, rows, positions, (page_indptr, pages, last_page_lens), last_rows = batch
        w = self.weights
        x, residual = w["embedding"][tokens], np.zeros((len(tokens), HIDDEN), np.float32)
        for i in range(LAYERS):
            flashinfer.fused_add_rmsnorm(x, residual, w[f"norm1.{i}"])
            qkv = (x @ w[f"qkv.{i}"]).reshape(len(tokens), -1, HEAD_DIM)
            q, k, v = np.split(qkv, [HEADS, HEADS + KV_HEADS], axis=1)
            q, k = flashinfer.apply_rope_pos_ids(q, k, positions)
            flashinfer.append_paged_kv_cache(k, v, rows, positions, self.caches[i], pages,
                                             page_indptr, last_page_lens)
            out = self.attention.run(q, self.caches[i])
            x = out.reshape(len(tokens), -1) @ w[f"o.{i}"]
            flashinfer.fused_add_rmsnorm(x, residual, w[f"norm2.{i}"])
            x = flashinfer.silu_and_mul(x @ w[f"up.{i}"]) @ w[f"down.{i}"]
        flashinfer.fused_add_rmsnorm(x, residual, w["norm"])
        return x[last_rows] @ w["head"]


def main():
    engine = Engine(random_weights())
    requests = [Request(tokens=list(range(1, length)), num_wanted=8, seed=length)
                for length in (3, 20, 40)]
    for request in requests:  # one joins at each step
        engine.add(request)
        engine.step()
    while engine.running:
        engine.step()
    for request in requests:
        print(f"prompt of {request.num_prompt}: {request.tokens[request.num_prompt:]}")


if __name__ == "__main__":
    main()
