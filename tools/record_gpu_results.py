#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what the programs of tools/gpu_bundle wrote into benchmarks/results.

A line takes the place of the one of its operator, case and device; times of a peer (torch_gpu.py)
join the line of their case.
"""
import argparse
import datetime
import json
import pathlib

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "benchmarks/results"


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def key(row):
    return row["op"], row["case"], row["device"]


def file_of(row):
    """The file of a line that is no peer's; lines of python_calls.py are brought into its form."""
    if "outcome" in row:
        return "sanitizer.jsonl"
    if row["op"] == "host":
        return "host.jsonl"
    return "python_calls.jsonl" if row["op"].startswith("python ") else "gpu.jsonl"


def is_peer(row):
    return "peer" in row and "us" not in row


def from_python(row, commit):
    kept = {name: row[name] for name in ("case", "over_launch_us", "device") if name in row}
    return {"op": "python " + row["op"], "us": row["host_us"], **kept, "commit": commit,
            "date": datetime.date.today().isoformat()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("written", nargs="+", type=pathlib.Path, help="files of JSON lines")
    parser.add_argument("--commit", required=True, help="of the bundle: of lines that do not say")
    options = parser.parse_args()
    rows = [row for path in options.written for row in read(path)]
    peers = {key(row): row for row in rows if is_peer(row)}
    measured = {}
    for row in rows:
        if "torch" in row:
            if row["op"] == "launch":
                continue
            row = from_python(row, options.commit)
        elif is_peer(row):
            continue
        peer = peers.get(key(row))
        if peer:
            row |= {"peer": peer["peer"], "peer_us": round(peer["peer_us"], 2),
                    "ratio": round(peer["peer_us"] / row["us"], 3)}
        measured.setdefault(file_of(row), {})[key(row)] = row
    for name, lines in measured.items():
        path = RESULTS / name
        kept = {key(row): row for row in read(path)} if path.exists() else {}
        merged = kept | lines
        path.write_text("".join(json.dumps(row) + "\n" for row in merged.values()), encoding="utf-8")
        print(f"record_gpu_results: {name}: {len(lines)} of {len(merged)} lines")


if __name__ == "__main__":
    main()
