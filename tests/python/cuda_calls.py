# SPDX-License-Identifier: Apache-2.0
"""Calls on a CUDA device through the binding, for cuda_test.py: run with a driver in the library
path. Prints what failed; exits with 0 when nothing did. With an argument, only that test runs."""
import ctypes
import sys

from cuda_device import DeviceArray, cuda, main, must, nans, rng, values
import ml_dtypes
import numpy as np

import flashinfer
from flashinfer._binding import lib


def on_both(function, inputs, outputs):
    """The outputs of a call on the host and on the device."""
    host = [np.array(x) for x in outputs]
    function(*[np.array(x) for x in inputs], *host)
    device = [DeviceArray(x) for x in outputs]
    function(*[DeviceArray(x) for x in inputs], *device)
    return host, [x.read() for x in device]


def check_near(function, inputs, outputs, rounding):
    for host, device in zip(*on_both(function, inputs, outputs)):
        host, device = host.astype(np.float64), device.astype(np.float64)
        assert np.isfinite(device).all()
        assert np.abs(host - device).max() <= rounding * max(1, np.abs(host).max())


def test_rows():
    check_near(lambda x, w, out: lib.rmsnorm(x, w, out, 1e-6), [values(5, 256), values(256)],
               [nans(5, 256)], 2.0**-7)
    check_near(lambda x, out: lib.silu_and_mul(x, out), [values(2, 3, 128)], [nans(2, 3, 64)],
               2.0**-7)
    check_near(lambda q, k, p, qo, ko: lib.apply_rope(q, k, p, qo, ko, 0, False, 1.0, 1e4),
               [values(5, 4, 64), values(5, 2, 64), np.arange(5, dtype=np.int32)],
               [nans(5, 4, 64), nans(5, 2, 64)], 2.0**-7)


def test_pages():
    k, v = values(6, 2, 64), values(6, 2, 64)
    tables = [np.int32([0, 0, 0, 1, 1, -1]), np.int32([0, 1, 4, 0, 2, 0]), np.int32([2, 0, 3]),
              np.int32([0, 2, 3]), np.int32([1, 3])]

    def append(k, v, requests, positions, pages, indptr, last, k_cache, v_cache):
        lib.append_paged_kv_cache(k, v, requests, positions, k_cache, v_cache, pages, indptr, last,
                                  False)

    zeros = np.zeros((4, 4, 2, 64), ml_dtypes.bfloat16)
    host, device = on_both(append, [k, v, *tables], [zeros, zeros])
    for a, b in zip(host, device):
        assert (a == b).all() and a.any()


def test_samplers():
    """The random source and the filters are those of the host: the same tokens."""
    logits = (2 * rng.standard_normal((6, 500))).astype(np.float32)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    ks, ps = np.int32([0, 1, 7, 400, 30, 9]), np.float32([1, 0.5, 0.9, 0.3, 1e-6, 0.8])
    tokens, seeds = np.full(6, -7, np.int32), rng.integers(-2**63, 2**63 - 1, 6)
    indices = np.int64([5, 0, 0, 3, 2, 1])

    def from_logits(logits, ks, ps, seeds, indices, tokens):
        lib.sample_from_logits(logits, tokens, None, indices, 0.7, ks, ps, 0.01, False, seeds, 3)

    def from_probs(probs, ks, ps, tokens):
        lib.sample_from_probs(probs, tokens, None, None, ks, ps, 0.0, True, 11, 2)

    for call, inputs in ((from_logits, [logits, ks, ps, seeds, indices]),
                         (from_probs, [probs, ks, ps])):
        host, device = on_both(call, inputs, [tokens])
        assert (host[0] == device[0]).all() and (host[0] >= 0).all(), (host, device)
    draft, target = probs[:4].reshape(2, 2, 500), probs.reshape(2, 3, 500)
    host, device = on_both(
        lambda d, ids, t, out, accepted, emitted: lib.chain_speculative_sampling(
            d, ids, t, out, accepted, emitted, 5, 0),
        [draft, np.int32(draft.argmax(axis=2)), target],
        [np.full((2, 3), -7, np.int32), np.int32([5, 5]), np.int32([7, 7])])
    for a, b in zip(host, device):
        assert (a == b).all() and (a >= -1).all()
    out = nans(6, 500, dtype=np.float32)
    for call in (lambda p, ks, out: lib.top_k_renorm_probs(p, out, ks),
                 lambda p, ks, out: lib.top_k_mask_logits(p, out, ks)):
        host, device = on_both(call, [probs, ks], [out])
        np.testing.assert_allclose(host[0], device[0], rtol=1e-5)
    host, device = on_both(lambda x, out: lib.softmax(x, out, 0.5), [logits], [out])
    np.testing.assert_allclose(host[0], device[0], rtol=1e-5)


def test_block_formats():
    """Codes and scales are those of the host, bit for bit."""
    scale = np.float32([300])
    for kind, per_byte, block in (("mxfp8_e4m3", 1, 32), ("mxfp4", 2, 32), ("nvfp4", 2, 16)):
        q, back = np.full((37, 96 // per_byte), 0xee, np.uint8), nans(37, 96, dtype=np.float32)
        for layout in range(3):
            scales = np.full(lib.block_scale_bytes(layout, 37, 96 // block), 0xee, np.uint8)

            def both_ways(x, scale, q, scales, back):
                lib.quantize_blocks(x, q, scales, kind, layout, 1.0, scale)
                lib.dequantize_blocks(q, scales, back, kind, layout, 1.0, scale)

            host, device = on_both(both_ways, [values(37, 96), scale], [q, scales, back])
            for a, b in zip(host, device):
                np.testing.assert_array_equal(a, b)
    linear = rng.integers(0, 256, (37, 6)).astype(np.uint8)
    tiles = np.full(lib.block_scale_bytes(0, 37, 6), 0xee, np.uint8)
    host, device = on_both(lambda x, out: lib.swizzle_block_scales(x, out, 0), [linear], [tiles])
    np.testing.assert_array_equal(*host, *device)


def test_top_k():
    scores = rng.integers(0, 90, (3, 700)).astype(ml_dtypes.bfloat16)  # with ties
    lengths, offsets = np.int32([700, 5, 300]), np.int32([0, 1000, 2000])
    columns, places = np.full((3, 40), -7, np.int64), np.full((3, 40), -7, np.int32)
    for call, inputs, out in (
            (lambda x, out: lib.top_k(x, None, out, True, False, None, None), [scores], columns),
            (lambda x, o, n, out: lib.top_k_ragged_transform(x, o, out, True, None, n),
             [scores, offsets, lengths], places)):
        host, device = on_both(call, inputs, [out])
        assert (host[0] == device[0]).all() and (host[0] != -7).all()


def on_device(function, inputs, outputs):
    """The outputs of a function of a workspace, inputs and outputs, on the device and the host."""
    def call(make):
        made = [make(np.array(x)) for x in outputs]
        function(make(np.zeros(8 << 20, np.uint8)), *[make(np.array(x)) for x in inputs], *made)
        return [np.asarray(m.read() if hasattr(m, "read") else m, np.float64) for m in made]

    for device, host in zip(call(DeviceArray), call(lambda x: x)):
        assert np.isfinite(host).all()
        assert np.abs(device - host).max() <= 2.0**-6 * max(1, np.abs(host).max())


def test_attention():
    """Plans read tables in host memory; sinks at a run plan again."""
    sizes, indptr, last = (4, 2, 64, 4), np.int32([0, 2, 5, 6]), np.int32([1, 4, 2])
    pages, rows = np.int32([5, 0, 2, 1, 4, 3]), np.int32([0, 1, 6, 8])
    k, v = values(6, 4, 2, 64), values(6, 4, 2, 64)
    sinks = rng.standard_normal(4).astype(np.float32)

    def decode(workspace, q, k, v, pages, sinks, out, lse, with_sinks):
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace)
        wrapper.plan(indptr, pages, last, *sizes, q_data_type="bfloat16", window_left=7)
        wrapper.run(q, (k, v), out=out, lse=lse)
        wrapper.run(q, (k, v), out=with_sinks, sinks=sinks)

    on_device(decode, [values(3, 4, 64), k, v, pages, sinks],
              [nans(3, 4, 64), nans(3, 4, dtype=np.float32), nans(3, 4, 64)])

    def prefill(workspace, q, k, v, pages, out, lse):
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace)
        wrapper.plan(rows, indptr, pages, last, *sizes, q_data_type="bfloat16", causal=True)
        wrapper.run(q, (k, v), out=out, lse=lse)

    on_device(prefill, [values(8, 4, 64), k, v, pages],
              [nans(8, 4, 64), nans(8, 4, dtype=np.float32)])

    def ragged(workspace, q, k, v, out, forward):
        wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace)
        wrapper.plan(rows, np.int32([0, 3, 8, 20]), *sizes[:3], q_data_type="bfloat16")
        wrapper.run(q, k, v, out=out)
        wrapper._change(sm_scale=0.3)
        wrapper.run(q, k, v, out=forward)

    def mixed(workspace, q, k, v, pages, out, lse):
        wrapper = flashinfer.BatchAttention(
            device="cuda:0" if isinstance(q, DeviceArray) else "cpu")
        wrapper.plan(rows, indptr, pages, np.int32([5, 12, 2]), 4, 2, 64, 64, 4, causal=True)
        wrapper.run(q, (k, v), out=out, lse=lse)

    on_device(mixed, [values(8, 4, 64), k, v, pages],
              [nans(8, 4, 64), nans(8, 4, dtype=np.float32)])
    on_device(ragged, [values(8, 4, 64), values(20, 2, 64), values(20, 2, 64)],
              [nans(8, 4, 64), nans(8, 4, 64)])


class Graph:
    """Tables of three requests on the device, and what runs of a plan of them give."""

    def __init__(self):
        self.tables = [DeviceArray(np.zeros(n, np.int32)) for n in (4, 4, 40, 3)]
        self.most_rows = 12

    def take(self, q_lens, kv_lens, page_size):
        pages = -(-np.int32(kv_lens) // page_size)
        self.rows, self.indptr = (np.int32([0, *np.cumsum(n)]) for n in (q_lens, pages))
        self.indices = np.resize(rng.permutation(40)[:pages.sum()], 40).astype(np.int32)
        self.last = np.int32(kv_lens) - (pages - 1) * page_size
        self.kv_lens = np.int32(kv_lens)


def test_plans_on_the_device():
    """One plan's launches serve the next batch, whose lengths the device alone knows."""
    from flashinfer.attention.record import MASK_CAUSAL, MASK_NONE, MLA_PROBLEM, PROBLEM, pack

    graph = Graph()
    k, v = values(40, 16, 2, 64), values(40, 16, 2, 64)
    ckv, kpe = values(40, 16, 128), values(40, 16, 64)
    on = [DeviceArray(x) for x in (k, v, ckv, kpe)]
    workspace = DeviceArray(np.zeros(32 << 20, np.uint8))

    def record(mask):
        return pack(PROBLEM, (2, 2, 2, 4, 2, 64, 64, 16, 0, mask, -1, 0, 0, 0.125, 0.0, 1.0, 1e4))

    def run_attention(plan, q, k, v, out, lse):
        lib.attention_run(plan, q, k, v, out, lse, 1.0, 1.0, 1.0)

    def run_mla(plan, q, ckv, kpe, out, lse):
        lib.mla_run(plan, q[0], q[1], ckv, kpe, out, lse, 1.0, 1.0)

    latent = pack(MLA_PROBLEM, (2, 2, 2, 4, 128, 64, 16, 1, -1, 0, 80, 0.1, 0.0))
    host_latent = pack(MLA_PROBLEM, (2, 2, 2, 4, 128, 64, 16, 1, -1, 0, 0, 0.1, 0.0))
    for kind, is_decode, run, host_record, device_record, width in (
            ("attention", True, run_attention, record(MASK_NONE), record(MASK_NONE), 64),
            ("attention", False, run_attention, record(MASK_CAUSAL), record(MASK_CAUSAL), 64),
            ("mla", False, run_mla, host_latent, latent, 128)):
        plans = [getattr(lib, f"{kind}_plan_make")(*device) for device in ((2, 0), (1, 0))]
        batches = (([7, 1, 4], [160, 9, 33]), ([1, 2, 9], [1, 250, 60]), ([3, 3, 3], [64, 30, 400]))
        for step, (q_lens, kv_lens) in enumerate(batches):
            if is_decode:
                q_lens = [1, 1, 1]
            graph.take(q_lens, kv_lens, 16)
            lens = graph.kv_lens if kind == "mla" else graph.last
            host = [None if is_decode else graph.rows, graph.indptr, graph.indices, lens]
            for table, now in zip(graph.tables, [graph.rows, *host[1:]]):
                table.write(now)
            most = 3 if is_decode else 12
            if step == 0:
                getattr(lib, f"{kind}_plan_on_device")(
                    plans[0], device_record, workspace, None if is_decode else graph.tables[0],
                    *graph.tables[1:], most, *([0] if kind == "attention" else []))
            else:
                getattr(lib, f"{kind}_replan_on_device")(plans[0])
            masks = [None, None] if kind == "attention" else []
            getattr(lib, f"{kind}_plan")(plans[1], host_record, None, *host, *masks)
            num_rows = int(graph.rows[-1])
            q = values(most, 4, width)
            q = (q, values(most, 4, 64)) if kind == "mla" else q
            cache = (ckv, kpe) if kind == "mla" else (k, v)
            got = nans(most, 4, width), nans(most, 4, dtype=np.float32)
            device = [DeviceArray(x) for x in got]
            parts = [DeviceArray(x) for x in q] if kind == "mla" else DeviceArray(q)
            run(plans[0], parts, *(on[2:] if kind == "mla" else on[:2]), *device)
            want = [x[:num_rows] for x in got]
            run(plans[1], [x[:num_rows] for x in q] if kind == "mla" else q[:num_rows], *cache,
                *want)
            for a, b in zip(device, want):
                a = a.read()[:num_rows].astype(np.float64)
                assert np.abs(a - b.astype(np.float64)).max() < 3e-2, (kind, is_decode, step)


# Sigmoid attention, as code for kernels up to SM80 and for those of SM90.
SIGMOID = """
struct Sigmoid : AttentionVariantBase {
  %s
  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    return math::ptx_rcp(1.f + math::ptx_exp2(-float(logits * scale_log2 + bias_log2)));
  });
  %s
};
"""
ROW_SIGMOID = SIGMOID % ("""
  static constexpr bool use_softmax = false;
  uint32_t window_left, qo_len, kv_len;
  float scale_log2, bias_log2;
  template <typename Params>
  __device__ __host__ Sigmoid(const Params& params, uint32_t batch_idx, uint8_t* smem_ptr) {
    window_left = kv_len = params.get_kv_len(batch_idx);
    qo_len = params.get_qo_len(batch_idx);
    scale_log2 = params.logits_scale * math::log2e;
    bias_log2 = params.bias[0] * math::log2e;
  }""", """
  REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale, {
    return output;
  })""")
BLOCK_SIGMOID = SIGMOID % ("""
  float scale_log2, bias_log2;
  template <typename MainloopParams, typename BlockCoord>
  __device__ __host__ Sigmoid(const MainloopParams& params, const BlockCoord& block_coord) {
    scale_log2 = params.additional_params.logits_scale * math::log2e;
    bias_log2 = params.additional_params.bias[0] * math::log2e;
  }
  template <int NUM_ROWS_PER_THREAD>
  __device__ auto GetAttentionUpdater() {
    return DefaultUpdater<NUM_ROWS_PER_THREAD>();
  }""", "")


def sigmoid_attention(q, k, v, scale, bias):
    """Of one request; k and v have a head for two of q."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    weights = 1 / (1 + np.exp(-np.einsum("qhd,khd->hqk", q, k.repeat(2, 1)) * scale - bias))
    return np.einsum("hqk,khd->qhd", weights, v.repeat(2, 1))


def test_variants():
    """Code of the caller's, in wrappers and in functions of one request."""
    from flashinfer.jit import attention as jit

    f16 = np.float16
    types = ["float16"] * 3
    user = [["bias"], ["float"], ["logits_scale"], ["double"], "Sigmoid"]
    rows, keys = np.int32([0, 1, 3, 7]), np.int32([0, 9, 14, 34])
    q, k, v = (values(n, h, 64, dtype=f16) for n, h in ((7, 4), (34, 2), (34, 2)))
    on = [DeviceArray(x) for x in (q, k, v)]
    bias = DeviceArray(np.float32([-0.5]))
    pages = [keys, DeviceArray(np.arange(34, dtype=np.int32)), np.int32([1] * 3)]
    workspace = DeviceArray(np.zeros(8 << 20, np.uint8))

    def check(out, first, last):
        for b in range(first, last):
            want = sigmoid_attention(q[rows[b]:rows[b + 1]], k[keys[b]:keys[b + 1]],
                                     v[keys[b]:keys[b + 1]], 0.125, -0.5)
            got = out.read()[rows[b] - rows[first]:rows[b + 1] - rows[first]]
            assert np.abs(got.astype(np.float64) - want).max() < 2e-2, (b, got, want)

    for backend, text in (("fa2", ROW_SIGMOID), ("fa3", BLOCK_SIGMOID)):
        jit_args = ["sigmoid", *types, "int32", 64, 64, *user, text]
        ragged = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
            workspace, backend=backend, jit_args=jit_args, jit_kwargs={"use_sliding_window": False})
        ragged.plan(rows, keys, 4, 2, 64)
        paged = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, backend=backend,
                                                               jit_args=jit_args)
        paged.plan(rows, *pages, 4, 2, 64, 1)
        for run in (lambda out: ragged.run(*on, bias, 0.125, out=out),
                    lambda out: paged.run(on[0], tuple(on[1:]), bias, 0.125, out=out)):
            out = DeviceArray(nans(7, 4, 64, dtype=f16))
            run(out)
            check(out, 0, 3)
    decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, jit_args=jit_args)
    decode.plan(np.int32([0, 9]), pages[1], np.int32([1]), 4, 2, 64, 1)
    one, out = DeviceArray(q[:1]), DeviceArray(nans(1, 4, 64, dtype=f16))
    decode.run(one, tuple(on[1:]), bias, 0.125, out=out)
    check(out, 0, 1)
    single = jit.gen_customize_single_prefill_module(
        "fa2", "sigmoid", *types, 64, 64, *user, ROW_SIGMOID).build_and_load()
    out = DeviceArray(nans(1, 4, 64, dtype=f16))
    record = flashinfer.attention.single._record("NHD", 0, "auto", "NONE", -1, *[None] * 4)
    few = [DeviceArray(x[:9]) for x in (k, v)]
    lib.single_attention_variant(record, single.made, one, *few, out, None,
                                 *single.values((bias, 0.125)))
    check(out, 0, 1)
    # Decode divides by the sum of weights, whatever the variant makes of outputs.
    softmax = ROW_SIGMOID.replace("use_softmax = false", "use_softmax = true").replace(
        "return math::ptx_rcp", "return 0; return math::ptx_rcp").replace(
        "scale_log2, bias_log2;", "scale_log2, bias_log2, sm_scale_log2 = 1;")
    mean = jit.gen_customize_single_decode_module(
        "mean", *types, 64, 64, *user, softmax).build_and_load()
    row, out = DeviceArray(q[0]), DeviceArray(nans(4, 64, dtype=f16))
    lib.single_attention_variant(record, mean.made, row, *few, out, None,
                                 *mean.values((bias, 0.125)))
    want = v[:9].astype(np.float64).mean(0).repeat(2, 0)
    assert np.abs(out.read().astype(np.float64) - want).max() < 2e-3
    try:
        ragged.run(*on, bias, out=out)
    except ValueError as error:
        assert "expected 2: bias, logits_scale" in str(error), error
    else:
        raise AssertionError("no ValueError")


def test_states():
    v_a, v_b = values(5, 4, 64), values(5, 4, 64)
    s_a, s_b = (rng.standard_normal((5, 4)).astype(np.float32) for _ in range(2))
    check_near(lambda *t: lib.merge_state(*t), [v_a, s_a, v_b, s_b],
               [nans(5, 4, 64), nans(5, 4, dtype=np.float32)], 2.0**-7)


def prefill_by_the_host():
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(DeviceArray(values(4096)),
                                                              backend="cpu")
    wrapper.plan(np.int32([0, 2]), np.int32([0, 3]), 4, 2, 64, q_data_type="float32")


def test_errors():
    x, weight = DeviceArray(values(5, 256)), values(256)
    for call, kind, words in (
            (lambda: lib.rmsnorm(x, weight, x, 1e-6), ValueError, "weight: "),
            (lambda: lib.rmsnorm(x, DeviceArray(values(255)), x, 1e-6), ValueError, "[255]"),
            (prefill_by_the_host, flashinfer.BackendSupportedError, "are on a CUDA device")):
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no {kind.__name__}")


def test_stream_of_the_framework():
    """A call is recorded on the stream that is current, and runs when its graph does."""
    import tvm_ffi

    x, weight, out = (DeviceArray(v) for v in (values(5, 256), values(256), nans(5, 256)))
    lib.rmsnorm(x, weight, out, 1e-6)
    expected, out = out.read(), DeviceArray(nans(5, 256))
    stream, graph, runnable = (ctypes.c_void_p() for _ in range(3))
    must(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    must(cuda.cuStreamBeginCapture_v2(stream, 0))
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", 0), stream.value):
        lib.rmsnorm(x, weight, out, 1e-6)
    must(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    assert np.isnan(out.read().astype(np.float32)).all(), "the call ran, and was not recorded"
    must(cuda.cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, ctypes.c_uint64(0)))
    must(cuda.cuGraphLaunch(runnable, stream))
    must(cuda.cuStreamSynchronize(stream))
    assert (out.read() == expected).all()


def without_compiler():
    """Where compiling is switched off and nothing is in the cache."""
    x, weight = DeviceArray(values(5, 256)), DeviceArray(values(256))
    try:
        lib.rmsnorm(x, weight, x, 1e-6)
    except flashinfer.MissingJITCacheError as error:
        assert "norm.simt" in str(error) and "FLASHINFER_DISABLE_JIT" in str(error), error
    else:
        raise AssertionError("no MissingJITCacheError")


if __name__ == "__main__":
    sys.exit(main(globals()))
