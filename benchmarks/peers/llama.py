# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of llama.cpp: peers/llama.py MODEL THREADS.

Prints one JSON object: prefill of 512 tokens, decode of 128 after a prompt of 128, a request of 128
in and 128 out from start to end, which is what a sequential server would repeat, and 16 such
requests at once in llama.cpp's own batches.
"""
import json
import statistics
import sys
import time

import llama_cpp

ROUNDS = 5


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class Batches:
    """Sequences that advance together, through the C interface."""

    def __init__(self, llm, num_sequences, threads):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = num_sequences * 512
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = num_sequences
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(llm.model, params)
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, rows):
        """`rows`: (token, position, sequence, whether its logits are wanted)."""
        self.batch.n_tokens = len(rows)
        for i, (token, position, sequence, is_last) in enumerate(rows):
            self.batch.token[i] = token
            self.batch.pos[i] = position
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = sequence
            self.batch.logits[i] = is_last
        if llama_cpp.llama_decode(self.context, self.batch) != 0:
            raise RuntimeError("llama_decode failed")


def run_at_once(batches, tokens, num_sequences):
    """Prompts of 128 tokens, each sequence with others, then 128 tokens for each."""
    batches.clear()
    rows = [(tokens[(37 * s + i) % len(tokens)], i, s, i == 127)
            for s in range(num_sequences) for i in range(128)]
    for begin in range(0, len(rows), 512):
        batches.decode(rows[begin:begin + 512])
    for step in range(127):
        batches.decode([(tokens[(s + step) % len(tokens)], 128 + step, s, True)
                        for s in range(num_sequences)])


def main():
    model, threads = sys.argv[1], int(sys.argv[2])
    llm = llama_cpp.Llama(model, n_ctx=2048, n_batch=512, n_threads=threads,
                          n_threads_batch=threads, verbose=False)
    # Any ids do: llama.cpp's time does not depend on them.
    tokens = [100 + 7 * i % 20000 for i in range(512)]

    def prefill(count):
        llm.reset()
        llm.eval(tokens[:count])

    def decode():
        for i in range(128):
            llm.eval([tokens[i]])

    prefill(512)
    prefill_s = statistics.median(seconds(lambda: prefill(512)) for _ in range(ROUNDS))
    decode_s, request_s = [], []
    for _ in range(ROUNDS):
        prompt = seconds(lambda: prefill(128))
        decode_s.append(seconds(decode))
        request_s.append(prompt + decode_s[-1])
    batches = Batches(llm, 16, threads)
    run_at_once(batches, tokens, 16)
    at_once_s = statistics.median(seconds(lambda: run_at_once(batches, tokens, 16))
                                  for _ in range(3))
    print(json.dumps({
        "version": llama_cpp.__version__,
        "prefill_tokens_per_s": 512 / prefill_s,
        "decode_tokens_per_s": 128 / statistics.median(decode_s),
        "request_tokens_per_s": 128 / statistics.median(request_s),
        "at_once_tokens_per_s": 16 * 128 / at_once_s,
    }))


if __name__ == "__main__":
    main()
