#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs small cases of every operator that has a GPU kernel under each tool of compute-sanitizer,
one process an operator and tool. Part of the folder that tools/gpu_bundle makes.

Appends a JSON line for each to the results; reports of processes that were not clean go beside it.
Exits with 1 when there is one, and with 77 where compute-sanitizer is missing or refuses the device.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "bin/flashinfer-cases"
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
ERROR_EXIT = 99  # beside the program's own


def find_sanitizer():
    return shutil.which("compute-sanitizer") or next(
        (str(p) for p in pathlib.Path("/usr/local").glob("cuda*/bin/compute-sanitizer")), None)


def check(op, max_cases, *prefix, timeout=None):
    command = [*prefix, PROGRAM, "check", *([op] if op else []), "--device", "cuda:0", "--max-cases",
               str(max_cases), "--json"]
    try:
        return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(command, 124, (error.stdout or b"").decode())


def outcome_of(result):
    found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", result.stdout)
    if result.returncode == 0 and found and set(found) == {"0"}:
        return "clean"
    if result.returncode == 124:
        return "timed out"
    return f"{found[-1] if found else '?'} reports, exit code {result.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--max-cases", type=int, default=12, help="of an operator")
    parser.add_argument("--timeout", type=float, default=150, help="seconds of a process")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("run_sanitizers: no compute-sanitizer here")
        return 77
    # Without the tools first: compiles the kernels, and says which operators have any.
    plain = check(None, options.max_cases)
    rows = json.loads(plain.stdout)["results"]
    ops = list(dict.fromkeys(r["op"] for r in rows if r["passed"] + r["failed"] > 0))
    if not ops:
        print("run_sanitizers: no operator runs on cuda:0")
        return 1
    first = check(ops[0], 1, sanitizer, "--tool", "memcheck", timeout=options.timeout)
    if re.search(r"Device not supported|Unable to", first.stdout):
        print(f"run_sanitizers: refused here: {first.stdout.strip()[:300]}")
        return 77
    device = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    commit = (HERE / "commit").read_text(encoding="utf-8").strip()

    def run(job):
        tool, op = job
        start = time.monotonic()
        result = check(op, options.max_cases, sanitizer, "--tool", tool, "--error-exitcode",
                       ERROR_EXIT, timeout=options.timeout)
        return tool, op, outcome_of(result), time.monotonic() - start, result.stdout

    num_bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
            open(options.results, "a", encoding="utf-8") as file:
        for tool, op, outcome, seconds, output in pool.map(run, [(t, o) for o in ops for t in TOOLS]):
            print(f"{tool:10} {op:28} {outcome} ({seconds:.0f} s)", flush=True)
            cases = sum(r["passed"] + r["failed"] for r in rows if r["op"] == op)
            file.write(json.dumps({"op": op, "case": tool, "outcome": outcome, "runs": cases,
                                   "device": device, "commit": commit,
                                   "date": time.strftime("%Y-%m-%d", time.gmtime())}) + "\n")
            if outcome != "clean":
                num_bad += 1
                options.results.with_name(f"{tool}-{op}.log").write_text(output, encoding="utf-8")
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
