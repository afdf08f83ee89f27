# SPDX-License-Identifier: Apache-2.0
"""Times of llama.cpp's products for the linear layers that a benchmark program lists.

Reads lines of `op field=value …` on stdin, writes JSON lines {op, case, peer, peer_us}; takes the
number of threads. A graph holds one product for each of many weights, as that of a model does, so
that starting it is paid once; of weights as they are stored and as llama.cpp repacks them where it
does, the faster counts.
"""
import ctypes
import json
import pathlib
import statistics
import sys
import time

import llama_cpp
import numpy

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12,
         "q5_k": 13, "q6_k": 14, "bf16": 30, "mxfp4": 39}
COLD_BYTES = 256e6
ROUNDS = 9
LIBRARIES = pathlib.Path(llama_cpp.__file__).parent / "lib"
base = ctypes.CDLL(LIBRARIES / "libggml-base.so", mode=ctypes.RTLD_GLOBAL)
cpu = ctypes.CDLL(LIBRARIES / "libggml-cpu.so", mode=ctypes.RTLD_GLOBAL)


class Params(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p),
                ("no_alloc", ctypes.c_bool)]


class Tensor(ctypes.Structure):
    """ggml_tensor, up to what is used here."""
    _fields_ = [("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4),
                ("nb", ctypes.c_size_t * 4), ("op", ctypes.c_int),
                ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
                ("src", ctypes.c_void_p * 10), ("view_src", ctypes.c_void_p),
                ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p),
                ("name", ctypes.c_char * 64), ("extra", ctypes.c_void_p)]


def declare(library, name, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


POINTER, SIZE, INT64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
init = declare(base, "ggml_init", POINTER, Params)
free = declare(base, "ggml_free", None, POINTER)
new_tensor_2d = declare(base, "ggml_new_tensor_2d", ctypes.POINTER(Tensor), POINTER, ctypes.c_int,
                        INT64, INT64)
mul_mat = declare(base, "ggml_mul_mat", ctypes.POINTER(Tensor), POINTER, POINTER, POINTER)
new_graph = declare(base, "ggml_new_graph", POINTER, POINTER)
expand = declare(base, "ggml_build_forward_expand", None, POINTER, POINTER)
num_bytes = declare(base, "ggml_nbytes", SIZE, POINTER)
quantize = declare(base, "ggml_quantize_chunk", SIZE, ctypes.c_int, POINTER, POINTER, INT64, INT64,
                   INT64, POINTER)
alloc_buffer = declare(base, "ggml_backend_buft_alloc_buffer", POINTER, POINTER, SIZE)
buffer_base = declare(base, "ggml_backend_buffer_get_base", POINTER, POINTER)
free_buffer = declare(base, "ggml_backend_buffer_free", None, POINTER)
place = declare(base, "ggml_backend_tensor_alloc", ctypes.c_int, POINTER, POINTER, POINTER)
set_tensor = declare(base, "ggml_backend_tensor_set", None, POINTER, POINTER, SIZE, SIZE)
set_log = declare(base, "ggml_log_set", None, POINTER, POINTER)
compute = declare(base, "ggml_backend_graph_compute", ctypes.c_int, POINTER, POINTER)
plain_type = declare(base, "ggml_backend_cpu_buffer_type", POINTER)
proc_address = declare(base, "ggml_backend_reg_get_proc_address", POINTER, POINTER, ctypes.c_char_p)
device_of = declare(base, "ggml_backend_get_device", POINTER, POINTER)
registry_of = declare(base, "ggml_backend_dev_backend_reg", POINTER, POINTER)
cpu_backend = declare(cpu, "ggml_backend_cpu_init", POINTER)
set_threads = declare(cpu, "ggml_backend_cpu_set_n_threads", None, POINTER, ctypes.c_int)
set_pool = declare(cpu, "ggml_backend_cpu_set_threadpool", None, POINTER, POINTER)
init_pool_params = declare(base, "ggml_threadpool_params_init", None, POINTER, ctypes.c_int)
new_pool = declare(cpu, "ggml_threadpool_new", POINTER, POINTER)


def make_backend(threads):
    backend = cpu_backend()
    set_threads(backend, threads)
    params = ctypes.create_string_buffer(1024)
    init_pool_params(params, threads)
    set_pool(backend, new_pool(params))
    return backend


def buffer_types(backend):
    """Where weights may lie: as they are stored, and repacked."""
    types = [plain_type()]
    address = proc_address(registry_of(device_of(backend)), b"ggml_backend_dev_get_extra_bufts")
    if address:
        more = ctypes.CFUNCTYPE(ctypes.POINTER(POINTER), POINTER)(address)(device_of(backend))
        for i in range(16):
            if not more or not more[i]:
                break
            types.append(more[i])
    return types


def stored_weight(kind, rows, cols, size):
    """Blocks of random values; some rows, repeated."""
    few = min(rows, 64)
    values = numpy.random.default_rng(1).standard_normal((few, cols)).astype(numpy.float32)
    stored = numpy.empty(size * few // rows, numpy.uint8)
    quantize(kind, values.ctypes.data, stored.ctypes.data, 0, few, cols, None)
    return numpy.tile(stored, rows // few)


def product_us(backend, buffer_type, case):
    """Of one product; None where llama.cpp does not keep such weights in such a buffer."""
    kind, rows, cols = TYPES[case["format"]], int(case["rows"]), int(case["cols"])
    context = init(Params(64 << 20, None, True))
    count = 1
    weights = [new_tensor_2d(context, kind, cols, rows)]
    size = num_bytes(weights[0])
    count = max(1, min(512, int(COLD_BYTES / size)))
    weights += [new_tensor_2d(context, kind, cols, rows) for _ in range(count - 1)]
    x = new_tensor_2d(context, 0, cols, int(case["num_tokens"]))
    products = [mul_mat(context, weight, x) for weight in weights]
    graph = new_graph(context)
    for product in products:
        expand(graph, product)
    spaced = (size + 511) // 512 * 512
    weight_buffer = alloc_buffer(buffer_type, spaced * count)
    others = alloc_buffer(plain_type(), sum(num_bytes(t) + 512 for t in products + [x]))
    try:
        at = buffer_base(weight_buffer)
        for i, weight in enumerate(weights):
            place(weight_buffer, weight, at + i * spaced)
        if buffer_type != plain_type() and not weights[0].contents.extra:
            return None
        stored = stored_weight(kind, rows, cols, size)
        for weight in weights:
            set_tensor(weight, stored.ctypes.data, 0, size)
        at = buffer_base(others)
        for tensor in [x] + products:
            place(others, tensor, at)
            at += (num_bytes(tensor) + 511) // 512 * 512
        values = numpy.random.default_rng(2).standard_normal(num_bytes(x) // 4)
        values = values.astype(numpy.float32)
        set_tensor(x, values.ctypes.data, 0, num_bytes(x))
        compute(backend, graph)
        times = []
        start = time.perf_counter()
        while len(times) < 3 or (time.perf_counter() - start < 0.6 and len(times) < ROUNDS):
            begin = time.perf_counter()
            compute(backend, graph)
            times.append((time.perf_counter() - begin) / count)
        return statistics.median(times) * 1e6
    finally:
        free_buffer(weight_buffer)
        free_buffer(others)
        free(context)


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, POINTER)
def say_nothing(level, text, data):
    """Takes the log lines, one for each weight that is repacked."""


def main():
    set_log(say_nothing, None)
    backend = make_backend(int(sys.argv[1]))
    for line in sys.stdin:
        op, _, text = line.strip().partition(" ")
        case = dict(word.split("=") for word in text.split())
        if op != "linear" or case["format"] not in TYPES:
            continue
        times = [product_us(backend, kind, case) for kind in buffer_types(backend)]
        us = min(t for t in times if t is not None)
        print(json.dumps({"op": op, "case": text, "peer": "llama.cpp", "peer_us": us}), flush=True)


if __name__ == "__main__":
    main()
