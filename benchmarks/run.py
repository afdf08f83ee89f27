# SPDX-License-Identifier: Apache-2.0
"""Measures every operator and the engine, side by side with their peers, on this machine.

Writes benchmarks/results/<op>.jsonl anew for this run; `tools/update_readme.py` puts them into the
README. Needs the packages of benchmarks/requirements.txt (`make bench` sees to all of it).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"
BENCH = [BIN / "flashinfer", "bench"]
RESULTS = ROOT / "benchmarks/results"
PEERS = ROOT / "benchmarks/peers"
WORDS = ("the of to and in is that for it as was with be by on not he his but at are this have "
         "from or had an they which one").split()


def output_of(*command, stdin=None):
    result = subprocess.run([str(c) for c in command], input=stdin, text=True,
                            stdout=subprocess.PIPE, check=True)
    return result.stdout


def run_operators(threads, only, commit):
    all_cases = output_of(*BENCH, "--list").splitlines(keepends=True)
    for op in dict.fromkeys(line.split()[0] for line in all_cases):
        if only and op not in only:
            continue
        cases = "".join(line for line in all_cases if line.startswith(f"{op} "))
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as peers:
            # The allocator keeps its memory, so that no peer pays for pages that come and go.
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads),
                           "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
                           "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
            for peer in (["torch_cpu.py"], ["ggml_linear.py", str(threads)]):
                subprocess.run([sys.executable, PEERS / peer[0], *peer[1:]], input=cases, text=True,
                               stdout=peers, check=True, env=environment)
            output = RESULTS / f"{op}.jsonl"
            output.unlink(missing_ok=True)
            subprocess.run([*BENCH, op, "--threads", str(threads), "--peers", peers.name,
                            "--output", output, "--commit", commit], check=True)


def prompt(num_tokens, first):
    """Common words, a token each; a different first word shares no page with another prompt."""
    return " ".join(WORDS[(first + i) % len(WORDS)] for i in range(num_tokens))


def generate(model, threads, prompts, max_tokens):
    command = [BIN / "flashinfer", "generate", "--model", model, "--raw", "--json", "--ignore-eos",
               "--threads", threads, "--max-tokens", max_tokens]
    for text in prompts:
        command += ["--prompt", text]
    return json.loads(output_of(*command))


def request_rate(result):
    """Generated tokens per second of the whole batch, prompts included."""
    took = (result["prompt_tokens"] / result["prefill_tokens_per_s"] +
            result["generated_tokens"] / result["decode_tokens_per_s"])
    return result["generated_tokens"] / took


def device_name(threads):
    return output_of(*BENCH, "--print-device", "--threads", threads).strip()


def run_engine(model, threads, commit, num_rounds):
    """Alternates between the two engines, so that both see the same machine."""
    rounds = {"prefill": [], "decode": [], "batch": [], "memory": []}
    peers = []
    for i in range(num_rounds):
        peers.append(json.loads(output_of(sys.executable, PEERS / "llama.py", model, threads)))
        rounds["prefill"].append(
            generate(model, threads, [prompt(512, i)], 1)["prefill_tokens_per_s"])
        one = generate(model, threads, [prompt(128, i)], 129)
        rounds["decode"].append(one["decode_tokens_per_s"])
        rounds["memory"].append(one["peak_memory_mib"])
        rounds["batch"].append(request_rate(
            generate(model, threads, [prompt(128, j) for j in range(16)], 128)))
    ours = {name: statistics.median(values) for name, values in rounds.items()}
    theirs = {name: statistics.median(p[name] for p in peers)
              for name in peers[0] if name != "version"}
    peer = f"llama.cpp (llama-cpp-python {peers[0]['version']})"
    rows = [
        ("prefill of 512 tokens", ours["prefill"], peer, theirs["prefill_tokens_per_s"]),
        ("decode of 128 after 128", ours["decode"], peer, theirs["decode_tokens_per_s"]),
        ("16 requests of 128 in, 128 out at once", ours["batch"], peer + ", one after the other",
         theirs["request_tokens_per_s"]),
        ("16 requests of 128 in, 128 out at once", ours["batch"], peer + ", in its own batches",
         theirs["at_once_tokens_per_s"]),
    ]
    device = device_name(threads)
    with open(RESULTS / "engine.jsonl", "w", encoding="utf-8") as file:
        for case, rate, name, peer_rate in rows:
            row = {"op": "engine", "case": case, "tokens_per_s": rate, "peer": name,
                   "peer_tokens_per_s": peer_rate, "ratio": rate / peer_rate, "device": device,
                   "commit": commit, "date": time.strftime("%Y-%m-%d", time.gmtime())}
            file.write(json.dumps(row) + "\n")
            print(f"{case}: {rate:.1f} tokens/s, {name} {peer_rate:.1f}, {rate / peer_rate:.2f}x")
    print(f"peak memory {ours['memory']:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", action="append", metavar="OP", help="this operator, or `engine`")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3, help="of the engine beside its peer")
    options = parser.parse_args()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    model = options.model or cache / "flashinfer/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    RESULTS.mkdir(exist_ok=True)
    # Before the results make the tree dirty.
    commit = output_of("git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*").strip()
    run_operators(options.threads, options.only, commit)
    if not options.only or "engine" in options.only:
        run_engine(model, options.threads, commit, options.rounds)


if __name__ == "__main__":
    main()
