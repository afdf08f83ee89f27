#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the generated parts of README.md: the examples, the support matrix, the measurements.

Each lies between <!-- NAME: generated --> and <!-- NAME: end -->; the roofline is drawn beside the
measurements. With --check, writes nothing and exits with 1 when something is not up to date.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import roofline  # noqa: E402

README = ROOT / "README.md"
ROOFLINE = ROOT / "benchmarks/results/roofline.svg"


def example(path, language):
    """A file without its first two lines, which say what it is."""
    lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
    return f"```{language}\n" + "\n".join(lines[2:]).strip() + "\n```"


def matrix(flashinfer):
    command = [flashinfer, "explain", "--matrix"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def latest_rows():
    """The last line of each case and peer on each device, from benchmarks/results."""
    rows = {}
    for path in sorted((ROOT / "benchmarks/results").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rows[row["op"], row["case"], row.get("peer"), row["device"]] = row
    return list(rows.values())


def significant(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def operator_table(rows):
    lines = ["| Operator | Case | µs | GB/s | GFLOP/s | of the floor | Peer | against it |",
             "|---|---|--:|--:|--:|--:|---|--:|"]
    for row in rows:
        gflops = row.get("tflop_per_s", 0) * 1000
        lines.append("| {} | `{}` | {} | {} | {} | {} | {} | {} |".format(
            row["op"], row["case"], significant(row["us"]),
            significant(row["gb_per_s"]) if "gb_per_s" in row else "",
            significant(gflops) if gflops else "",
            f"{100 * row['floor_share']:.0f} %" if "floor_share" in row else "",
            row.get("peer", ""), f"{row['ratio']:.2f}×" if "ratio" in row else ""))
    return lines


def engine_table(rows):
    lines = ["| Engine, SmolLM2-135M Q4_1 | tokens/s | Peer | tokens/s | against it |",
             "|---|--:|---|--:|--:|"]
    for row in rows:
        lines.append("| {} | {} | {} | {} | {:.2f}× |".format(
            row["case"], significant(row["tokens_per_s"]), row["peer"],
            significant(row["peer_tokens_per_s"]), row["ratio"]))
    return lines


def results():
    text = []
    rows = latest_rows()
    for device in sorted({row["device"] for row in rows}):
        here = [row for row in rows if row["device"] == device]
        commits = sorted({row["commit"] for row in here})
        text.append(f"On {device} (commit {', '.join(commits)}):\n")
        engine = [row for row in here if "tokens_per_s" in row]
        operators = [row for row in here if "us" in row]
        text += engine_table(engine) + [""] if engine else []
        text += operator_table(operators) + [""] if operators else []
        if device == roofline.device():
            text += [f"![Roofline of {device}](benchmarks/results/roofline.svg)", ""]
    return "\n".join(text).strip() or "No measurements yet."


def replace(text, name, content):
    pattern = re.compile(rf"(<!-- {name}: generated.*?-->\n).*?(\n<!-- {name}: end -->)", re.DOTALL)
    if not pattern.search(text):
        sys.exit(f"update_readme: README.md has no markers for {name}")
    return pattern.sub(lambda m: m[1] + content + m[2], text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--flashinfer", default=str(ROOT / "build/release/bin/flashinfer"))
    options = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    text = replace(text, "example", example("tests/install/consumer/consumer.cc", "cpp"))
    text = replace(text, "python example", example("examples/python/readme_example.py", "python"))
    text = replace(text, "matrix", matrix(options.flashinfer))
    text = replace(text, "results", results())
    files = {README: text, ROOFLINE: roofline.current()}
    stale = [path for path, new in files.items()
             if not path.exists() or path.read_text(encoding="utf-8") != new]
    names = ", ".join(path.name for path in stale)
    if not stale:
        print("update_readme: up to date")
    elif options.check:
        print(f"update_readme: {names}: not up to date; run tools/update_readme.py")
        return 1
    for path in stale:
        path.write_text(files[path], encoding="utf-8")
        print(f"update_readme: {path.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
