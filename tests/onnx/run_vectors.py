# SPDX-License-Identifier: Apache-2.0
"""Unpacks ONNX node tests into plain files and runs the test binary over them.

run_vectors.py ARCHIVE BINARY: ARCHIVE is a .tar.xz of ONNX's backend/test/data/node. Exits with 77,
which CTest counts as skipped, when there is no such file.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile

# Fields of onnx.proto3, by message: number -> name. What is not listed is not needed.
MODEL = {7: "graph", 8: "opset_import"}
GRAPH = {1: "node", 11: "input", 12: "output"}
NODE = {1: "input", 2: "output", 4: "op_type", 5: "attribute"}
ATTRIBUTE = {1: "name", 2: "f", 3: "i", 4: "s", 6: "g", 7: "floats", 8: "ints"}
TENSOR = {1: "dims", 2: "data_type", 4: "float_data", 5: "int32_data", 7: "int64_data", 9: "raw_data",
          10: "double_data"}
VALUE = {1: "name"}
DTYPES = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16",
          11: "f64", 16: "bf16", 17: "e4m3", 18: "e4m3fnuz", 19: "e5m2", 20: "e5m2fnuz", 21: "uint4x2",
          22: "int4x2", 23: "e2m1x2", 24: "e8m0", 25: "uint2x4", 26: "int2x4"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def message(data, names):
    """The fields of a protocol buffer message: name -> list of what was there."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            value = signed(value)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size, code = {1: (8, "<d"), 5: (4, "<f")}[kind]
            value, at = struct.unpack_from(code, data, at)[0], at + size
        if key >> 3 in names:
            fields.setdefault(names[key >> 3], []).append(value)
    return fields


def numbers(values, code=None):
    """A repeated number, packed or not; `code` is struct's letter of a fixed-size one."""
    result = []
    for value in values:
        if not isinstance(value, bytes):
            result.append(value)
        elif code:
            result += [x[0] for x in struct.iter_unpack("<" + code, value)]
        else:
            at = 0
            while at < len(value):
                number, at = varint(value, at)
                result.append(signed(number))
    return result


def tensor_bytes(fields, dtype):
    if "raw_data" in fields:
        return fields["raw_data"][0]
    if "float_data" in fields:
        values = numbers(fields["float_data"], "f")
        return struct.pack(f"<{len(values)}f", *values)
    if "int32_data" in fields:  # narrow types lie here, one a number
        values = numbers(fields["int32_data"])
        code = {"i32": "i", "f16": "H", "bf16": "H", "i16": "h", "u16": "H", "i8": "b"}.get(dtype, "B")
        return struct.pack(f"<{len(values)}{code}", *values)
    return b""


def write_tensor(data, folder, name):
    fields = message(data, TENSOR)
    dtype = DTYPES.get(fields["data_type"][0], "other")
    (folder / name).write_bytes(tensor_bytes(fields, dtype))
    return {"dtype": dtype, "shape": numbers(fields.get("dims", [])), "file": f"{folder.name}/{name}"}


def attributes(node):
    result = {}
    for data in node.get("attribute", []):
        fields = message(data, ATTRIBUTE)
        for kind, read in (("i", lambda v: v[0]), ("f", lambda v: v[0]), ("ints", numbers),
                           ("s", lambda v: v[0].decode()), ("g", lambda v: "graph")):
            if kind in fields:
                result[fields["name"][0].decode()] = read(fields[kind])
    return result


def case_of(files, name, out):
    graph = message(message(files[f"{name}/model.onnx"], MODEL)["graph"][0], GRAPH)
    nodes = [message(data, NODE) for data in graph["node"]]
    folder = out / name
    folder.mkdir()
    given = {}
    for kind in ("input", "output"):
        for i, value in enumerate(graph.get(kind, [])):
            data = files.get(f"{name}/test_data_set_0/{kind}_{i}.pb")
            if data is not None:
                given[message(value, VALUE)["name"][0]] = write_tensor(data, folder, f"{kind}_{i}")
    tensors = lambda node, kind: [given.get(value) for value in node.get(kind, [])]
    return {"name": name, "op": nodes[0]["op_type"][0].decode(), "num_nodes": len(nodes),
            "attributes": attributes(nodes[0]), "inputs": tensors(nodes[0], "input"),
            "outputs": tensors(nodes[-1], "output")}


def main():
    archive, binary = sys.argv[1:3]
    if not os.path.isfile(archive):
        print(f"no file {archive}; see FLASHINFER_TEST_DATA")
        return 77
    files = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and "/node/" in member.name:
                files[member.name.split("/node/", 1)[1]] = tar.extractfile(member).read()
    names = sorted(name.split("/")[0] for name in files if name.endswith("/model.onnx"))
    with tempfile.TemporaryDirectory() as folder:
        cases = [case_of(files, name, pathlib.Path(folder)) for name in names]
        index = pathlib.Path(folder) / "index.json"
        index.write_text(json.dumps(cases), encoding="utf-8")
        if len(sys.argv) > 3:
            print(index.read_text())
        return subprocess.run([binary, index] + sys.argv[3:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
