# SPDX-License-Identifier: Apache-2.0
"""Conversions against ml_dtypes: every code, and every bfloat16 and float16 value in range.

Usage: convert_test.py PATH_OF_convert_table. Exits with 77 (skipped) without numpy and ml_dtypes.
"""
import subprocess
import sys

try:
    import ml_dtypes
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; tools/setup makes a Python that has it")
    sys.exit(77)

# Name -> numpy type, the type of its bits, its largest finite value: beyond it we saturate (fp8,
# fp4) where ml_dtypes does not.
FORMATS = {
    "f16": (np.float16, np.uint16, np.inf),
    "bf16": (ml_dtypes.bfloat16, np.uint16, np.inf),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8, 448),
    "e5m2": (ml_dtypes.float8_e5m2, np.uint8, 57344),
    "e2m1": (ml_dtypes.float4_e2m1fn, np.uint8, 6),
    "e8m0": (ml_dtypes.float8_e8m0fnu, np.uint8, np.inf),
}


def inputs():
    """Every value of both 16-bit types, the floats beside them and the middles between them."""
    codes = np.arange(65536, dtype=np.uint16)
    values = np.concatenate(
        [codes.view(np.float16).astype(np.float32),
         codes.view(ml_dtypes.bfloat16).astype(np.float32)])
    bits = values.view(np.uint32)
    with np.errstate(over="ignore"):
        return np.unique(np.concatenate([bits, bits + 1, bits - 1, bits + 0x8000, bits + 0x1000]))


def table(program, bits):
    text = "\n".join(f"{b:x}" for b in bits)
    lines = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout
    rows = {}
    for line in lines.splitlines():
        kind, name, source, result = line.split()
        rows.setdefault((kind, name), []).append((int(source, 16), int(result, 16)))
    return {key: np.array(pairs, dtype=np.uint32) for key, pairs in rows.items()}


def same(ours, theirs):
    """Equal bits, or NaN in both."""
    nans = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))
    view = {1: np.uint8, 2: np.uint16, 4: np.uint32}[ours.dtype.itemsize]
    return nans | (ours.view(view) == theirs.view(view))


def report(what, source, good):
    bad = source[~good]
    print(f"{what}: {len(source)} values, {len(bad)} differ", [hex(b) for b in bad[:5]])
    return len(bad) == 0


def main():
    rows = table(sys.argv[1], inputs())
    all_good = True
    for name, (dtype, bits_type, largest) in FORMATS.items():
        codes, floats = rows["decode", name].T
        theirs = codes.astype(bits_type).view(dtype).astype(np.float32)
        all_good &= report(f"decode {name}", codes, same(floats.copy().view(np.float32), theirs))
        if name == "e8m0":
            continue  # ml_dtypes has other rules for what is no power of two
        source, codes = rows["encode", name].T
        values = source.copy().view(np.float32)
        in_range = np.isinf(largest) | (np.abs(values) <= largest)
        if name != "e2m1":
            in_range |= np.isnan(values)
        source, values, codes = source[in_range], values[in_range], codes[in_range]
        with np.errstate(over="ignore", invalid="ignore"):
            theirs = values.astype(dtype)
        all_good &= report(f"encode {name}", source, same(codes.astype(bits_type).view(dtype), theirs))
    sys.exit(0 if all_good else 1)


main()
