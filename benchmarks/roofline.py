#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws benchmarks/results/gpu.jsonl as a roofline: arithmetic done over bytes moved, against what
the device can do at most. Writes benchmarks/results/roofline.svg, or to the file that is given.
"""
import argparse
import html
import json
import math
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/gpu.jsonl"
OUTPUT = ROOT / "benchmarks/results/roofline.svg"

# TFLOP/s: dense products of bf16 on tensor cores as measured there (8192 x 8192 x 8192, 2026-11),
# and float32 on CUDA cores as the vendor says.
PEAKS = {"NVIDIA H200": [("tensor cores, bf16", 790.0), ("CUDA cores, f32", 67.0)]}
# FLOPs a byte of operators whose rows record no arithmetic: bf16 in and out, each moved once.
FLOPS_PER_BYTE = {
    "rmsnorm": 4 / 4,            # square, add; scale, weight; 2 bytes read and written
    "fused_add_rmsnorm": 5 / 8,  # and the sum, of two tensors read and written
    "silu_and_mul": 5 / 6,       # exponential, add, divide, two products
    "rope": 3 / 4,               # two products and a sum an element
    "append_paged_kv_cache": 0.01,  # a copy: at the left edge
}
COLORS = ["#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#e03e3e", "#64473a", "#dfab01"]
WIDTH, HEIGHT = 960, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 250, 50, 60


def flops_per_byte(row):
    if row.get("tflop_per_s") and row.get("gb_per_s"):
        return row["tflop_per_s"] / row["gb_per_s"] * 1e3
    if row["op"] == "batch_decode":
        heads = next(word for word in row["case"].split() if word.count("/") == 2)
        num_qo_heads, num_kv_heads, _ = map(int, heads.split("/"))
        return num_qo_heads / num_kv_heads  # 4 FLOPs a query head and element of K or V, of 2 bytes
    return FLOPS_PER_BYTE.get(row["op"])


def points_of(rows):
    points = []
    for row in rows:
        intensity = flops_per_byte(row)
        if intensity and "gb_per_s" in row:
            points.append((row["op"], row["case"], row["us"], intensity,
                           intensity * row["gb_per_s"] * 1e-3))
    return points


class Axes:
    """Logarithmic in both directions."""

    def __init__(self, xs, ys):
        self.x0, self.x1 = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
        self.y0, self.y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def x(self, value):
        share = (math.log10(value) - self.x0) / (self.x1 - self.x0)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        share = (math.log10(value) - self.y0) / (self.y1 - self.y0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def grid(self):
        for power in range(self.x0, self.x1 + 1):
            x = self.x(10.0 ** power)
            yield line(x, TOP, x, HEIGHT - BOTTOM, "#e3e2e0")
            yield text(x, HEIGHT - BOTTOM + 18, f"{10.0 ** power:g}", "middle")
        for power in range(self.y0, self.y1 + 1):
            y = self.y(10.0 ** power)
            yield line(LEFT, y, WIDTH - RIGHT, y, "#e3e2e0")
            yield text(LEFT - 8, y + 4, f"{10.0 ** power:g}", "end")


def line(x0, y0, x1, y1, color, width=1):
    return (f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{color}" '
            f'stroke-width="{width}"/>')


def text(x, y, words, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'


def roofs(axes, tb_per_s, peaks):
    """The slope of the memory, and a level for each kind of arithmetic."""
    for i, (name, peak) in enumerate(peaks):
        ridge = peak / tb_per_s
        yield line(axes.x(max(ridge, 10.0 ** axes.x0)), axes.y(peak), WIDTH - RIGHT, axes.y(peak),
                   "#37352f", 1.5)
        yield text(WIDTH - RIGHT - 4, axes.y(peak) - 5, f"{name}: {peak:g} TFLOP/s", "end")
        if i == 0:
            low = max(10.0 ** axes.x0, 10.0 ** axes.y0 / tb_per_s)
            yield line(axes.x(low), axes.y(low * tb_per_s), axes.x(ridge), axes.y(peak), "#37352f",
                       1.5)
            yield text(axes.x(low) + 60, axes.y(low * tb_per_s) - 10,
                       f"memory: {tb_per_s:.2f} TB/s read")


def draw(rows):
    device = rows[0]["device"]
    fullest = max(rows, key=lambda r: r["floor_share"])  # with the most digits
    tb_per_s = fullest["gb_per_s"] / fullest["floor_share"] * 1e-3
    peaks = PEAKS.get(device, [])
    points = points_of(rows)
    axes = Axes([p[3] for p in points] + [peak / tb_per_s for _, peak in peaks],
                [p[4] for p in points] + [peak for _, peak in peaks])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="12" fill="#37352f">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(LEFT, 28, f"Roofline, {device}", extra=' font-size="16" font-weight="bold"')]
    parts += axes.grid()
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18, "FLOPs a byte moved", "middle"))
    parts.append(text(0, 0, "TFLOP/s", "middle",
                      f' transform="translate(24 {HEIGHT / 2:.0f}) rotate(-90)"'))
    parts += roofs(axes, tb_per_s, peaks)
    ops = list(dict.fromkeys(p[0] for p in points))
    for op, case, us, intensity, tflops in points:
        color = COLORS[ops.index(op) % len(COLORS)]
        title = html.escape(f"{op} {case}: {us:g} µs, {tflops:.3g} TFLOP/s")
        parts.append(f'<circle cx="{axes.x(intensity):.1f}" cy="{axes.y(tflops):.1f}" r="4.5" '
                     f'fill="{color}" fill-opacity="0.75"><title>{title}</title></circle>')
    for i, op in enumerate(ops):
        y = TOP + 12 + 20 * i
        parts.append(f'<circle cx="{WIDTH - RIGHT + 26}" cy="{y - 4}" r="4.5" '
                     f'fill="{COLORS[i % len(COLORS)]}"/>')
        parts.append(text(WIDTH - RIGHT + 38, y, op))
    return "\n".join(parts) + "\n</svg>\n"


def recorded():
    """The latest row of each case, on the device of the last row."""
    rows = [json.loads(l) for l in RESULTS.read_text(encoding="utf-8").splitlines()]
    rows = [r for r in rows if r["device"] == rows[-1]["device"] and "us" in r]
    return list({(r["op"], r["case"]): r for r in rows}.values())


def device():
    return recorded()[-1]["device"]


def current():
    """The plot, as text."""
    return draw(recorded())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", nargs="?", type=pathlib.Path, default=OUTPUT)
    parser.parse_args().output.write_text(current(), encoding="utf-8")


if __name__ == "__main__":
    main()
