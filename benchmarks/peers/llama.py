# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of llama.cpp: peers/llama.py MODEL THREADS.

Prints one JSON object: prefill of 512 tokens, decode of 128 after a prompt of 128, and a request of
128 in and 128 out from start to end, which is what a sequential server would repeat.
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
    print(json.dumps({
        "version": llama_cpp.__version__,
        "prefill_tokens_per_s": 512 / prefill_s,
        "decode_tokens_per_s": 128 / statistics.median(decode_s),
        "request_tokens_per_s": 128 / statistics.median(request_s),
    }))


if __name__ == "__main__":
    main()
