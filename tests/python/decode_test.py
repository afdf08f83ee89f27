# SPDX-License-Identifier: Apache-2.0
"""flashinfer.decode against float64 NumPy."""
import threading
from functools import partial

import numpy as np
import pytest
from attention_oracle import PagedBatch, attention, check_attention

import flashinfer
from flashinfer import decode

HEADS, KV_HEADS, DIM = 8, 2, 64


def workspace(tensors, num_bytes=8 << 20):
    return tensors.full((num_bytes,), 0, "uint8")


def expected(batch, q, **options):
    results = [attention(q[b:b + 1], batch.keys(b), batch.values(b), **options)
               for b in range(len(batch.kv_lens))]
    return tuple(np.concatenate(parts) for parts in zip(*results))


def make(tensors, rng, kv_lens, *, dtype="float16", kv_dtype=None, page_size=16, layout="NHD",
         heads=HEADS, kv_heads=KV_HEADS, dim=DIM, is_pair=False):
    batch = PagedBatch(rng, kv_lens, page_size=page_size, heads=kv_heads, dim=dim, layout=layout,
                       dtype=kv_dtype or dtype, tensors=tensors, is_pair=is_pair)
    q = tensors.make(rng.standard_normal((len(kv_lens), heads, dim)), dtype)
    return batch, q


@pytest.mark.parametrize("encoding", ["NONE", "ROPE_LLAMA", "ALIBI"])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_single(tensors, rng, dtype, layout, encoding):
    shape = (77, KV_HEADS, DIM)
    q = tensors.make(rng.standard_normal((HEADS, DIM)), dtype)
    k, v = (tensors.make(rng.standard_normal(shape), dtype) for _ in range(2))
    given = [t.swapaxes(0, 1) for t in (k, v)] if layout == "HND" else [k, v]
    out, lse = decode.single_decode_with_kv_cache(q, *given, layout, encoding, return_lse=True,
                                                  window_left=40, logits_soft_cap=3.0,
                                                  rope_theta=5e3, rope_scale=2.0)
    o, s = attention(tensors.read(q)[None], tensors.read(k), tensors.read(v), encoding=encoding,
                     window_left=40, soft_cap=3.0, rope_theta=5e3, rope_scale=2.0)
    if encoding == "ALIBI":  # the slope counts from the row of the query: 0
        s = None
    check_attention(tensors, out, None if s is None else lse, (o[0], None if s is None else s[0]),
                    dtype)


def test_single_scales(tensors, rng):
    q = tensors.make(rng.standard_normal((HEADS, DIM)), "bfloat16")
    k, v = (tensors.make(rng.standard_normal((33, KV_HEADS, DIM)), "float8_e4m3fn")
            for _ in range(2))
    out = flashinfer.single_decode_with_kv_cache(q, k, v, q_scale=0.5, k_scale=0.25, v_scale=2.0)
    o, _ = attention(0.5 * tensors.read(q)[None], 0.25 * tensors.read(k), 2 * tensors.read(v))
    check_attention(tensors, out, None, (o[0], None), "bfloat16")


@pytest.mark.parametrize("page_size", [1, 5, 16])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize("dtype,kv_dtype", [("float16", "float16"), ("bfloat16", "float8_e5m2")])
def test_batch(tensors, rng, dtype, kv_dtype, is_pair, layout, page_size):
    batch, q = make(tensors, rng, [0, 1, 16, 17, 130, 3], dtype=dtype, kv_dtype=kv_dtype,
                    page_size=page_size, layout=layout, is_pair=is_pair)
    wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), layout)
    wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, page_size, q_data_type=dtype,
                 kv_data_type=q.dtype if kv_dtype == dtype else kv_dtype)
    out = tensors.full((6, HEADS, DIM), np.nan, dtype)
    lse = tensors.full((6, HEADS), np.nan, "float32")
    result = wrapper.run(q, batch.cache, out=out, lse=lse, return_lse=True)
    assert result[0] is out and result[1] is lse
    check_attention(tensors, out, lse, expected(batch, tensors.read(q)), dtype)
    made = wrapper.run(q, batch.cache)
    assert made.dtype == q.dtype
    assert (tensors.read(made) == tensors.read(out)).all()


@pytest.mark.parametrize("encoding", ["NONE", "ROPE_LLAMA"])
def test_every_option_changes_the_result(tensors, rng, encoding):
    batch, q = make(tensors, rng, [40, 7, 65])
    wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors))
    base = None
    for options in ({}, {"window_left": 5}, {"soft_cap": 2.0}, {"sm_scale": 0.3},
                    *([{"rope_scale": 4.0}, {"rope_theta": 500.0}] if encoding != "NONE" else [])):
        given = {("logits_soft_cap" if name == "soft_cap" else name): value
                 for name, value in options.items()}
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, pos_encoding_mode=encoding,
                     **given)
        out, lse = wrapper.run(q, batch.cache, return_lse=True)
        check_attention(tensors, out, lse, expected(batch, tensors.read(q), encoding=encoding,
                                                    **options), "float16")
        values = tensors.read(out)
        assert base is None or np.abs(values - base).max() > 0.02
        base = values if base is None else base


def test_sinks_and_scales(tensors, rng):
    batch, q = make(tensors, rng, [20, 0, 300], kv_dtype="float8_e4m3fn")
    wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors))
    wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, kv_data_type="float8_e4m3fn")
    sinks = rng.standard_normal(HEADS)
    per_head = [rng.uniform(0.5, 2, n) for n in (HEADS, KV_HEADS, KV_HEADS)]
    spread = [np.repeat(s, HEADS // len(s)) for s in per_head]

    def oracle(q_scale, k_scale, v_scale, sinks=None):
        o, s = zip(*[attention(q64[b:b + 1], batch.keys(b), batch.values(b), sinks=sinks)
                     for q64 in [tensors.read(q) * (q_scale * k_scale)[:, None]]
                     for b in range(3)])
        return np.concatenate(o) * v_scale[:, None], np.concatenate(s)

    f32 = [tensors.make(x, "float32") for x in per_head]
    ones = np.ones(HEADS)
    for _ in range(2):  # the second time the plan knows that there are sinks
        got = wrapper.run(q, batch.cache, sinks=tensors.make(sinks, "float32"), return_lse=True)
        check_attention(tensors, *got, oracle(ones, ones, ones, sinks), "float16")
    got = wrapper.run(q, batch.cache, *f32, return_lse=True)
    check_attention(tensors, *got, oracle(*spread), "float16")
    got = wrapper.run(q, batch.cache, q_scale=0.5, k_scale=tensors.make([0.25], "float32"),
                      v_scale=2.0, return_lse=True)
    check_attention(tensors, *got, oracle(0.5 * ones, 0.25 * ones, 2 * ones), "float16")


def test_several_tokens_per_request(tensors, rng):
    batch, _ = make(tensors, rng, [9, 40, 3])
    q = tensors.make(rng.standard_normal((9, HEADS, DIM)), "float16")
    wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), use_tensor_cores=True)
    with pytest.raises(ValueError, match="prior plan"):
        flashinfer.fast_decode_plan(wrapper, *batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
    wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, q_len_per_req=3,
                 seq_lens=tensors.make(np.array([9, 40, 3], np.int32)))
    out, lse = wrapper.run(q, batch.cache, return_lse=True, q_len_per_req=3)
    parts = [attention(tensors.read(q)[3 * b:3 * b + 3], batch.keys(b), batch.values(b),
                       causal=True) for b in range(3)]
    check_attention(tensors, out, lse, tuple(map(np.concatenate, zip(*parts))), "float16")
    with pytest.raises(ValueError, match="q_len_per_req"):
        wrapper.run(q[:8], batch.cache)
    with pytest.raises(ValueError, match="empty KV range"):
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, q_len_per_req=4)
    for options, error, match in (({}, ValueError, "use_tensor_cores"),
                                  ({"use_tensor_cores": True, "backend": "fa3"},
                                   NotImplementedError, "fa2")):
        other = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), **options)
        with pytest.raises(error, match=match):
            other.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, q_len_per_req=2)
    with pytest.raises(ValueError, match="seq_lens"):
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16,
                     seq_lens=tensors.make(np.array([9, 40, 4], np.int32)))


def test_splits_do_not_change_with_the_batch(tensors, rng):
    for options in ({"fixed_split_size": 4}, {"disable_split_kv": True}):
        batch, q = make(tensors, rng, [900, 70, 5])
        wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors))
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, **options)
        together = tensors.read(wrapper.run(q, batch.cache))
        check_attention(tensors, wrapper.run(q, batch.cache), None,
                        expected(batch, tensors.read(q)), "float16")
        begin, end = batch.indptr[:2]
        wrapper.plan(tensors.make(np.array([0, end - begin], np.int32)),
                     tensors.make(batch.indices[begin:end]), tensors.make(batch.last_page_len[:1]),
                     HEADS, KV_HEADS, DIM, 16, **options)
        assert (tensors.read(wrapper.run(q[:1], batch.cache)) == together[:1]).all()


def test_older_interface(tensors, rng):
    batch, q = make(tensors, rng, [50, 21])
    wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors))
    with pytest.warns(DeprecationWarning):
        wrapper.begin_forward(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, "NONE", 3, 0.0,
                              "float16")
    got = wrapper.run_return_lse(q, batch.cache)
    check_attention(tensors, *got, expected(batch, tensors.read(q), window_left=3), "float16")
    for options in ({"window_left": 4}, {"logits_soft_cap": 1.5}, {"sm_scale": 0.5}, {}):
        named = {name.replace("logits_", ""): value for name, value in options.items()}
        got = wrapper.forward_return_lse(q, batch.cache, **options)
        check_attention(tensors, *got, expected(batch, tensors.read(q), **named), "float16")
        assert (tensors.read(wrapper.forward(q, batch.cache, **options))
                == tensors.read(got[0])).all()
    # What forward() asked for is planned at once the next time, and does not reach a run().
    plan = partial(wrapper.plan, *batch.tables(tensors), HEADS, KV_HEADS, DIM, 16, window_left=3)
    for window in (6, 7):
        wrapper.forward(q, batch.cache, window_left=6)
        plan()
        assert wrapper._window_left == 3
        check_attention(tensors, wrapper.forward(q, batch.cache, window_left=window), None,
                        expected(batch, tensors.read(q), window_left=window)[:1] + (None,),
                        "float16")
        plan()
        check_attention(tensors, wrapper.run(q, batch.cache, window_left=3), None,
                        expected(batch, tensors.read(q), window_left=3)[:1] + (None,), "float16")
    wrapper.end_forward()


def test_graph_buffers(tensors, rng):
    buffers = [tensors.full(shape, -1, "int32") for shape in ((4,), (64,), (3,))]
    wrapper = decode.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(workspace(tensors), *buffers)
    assert wrapper.is_cuda_graph_enabled
    for lens in ([50, 21, 100], [1, 300, 17]):
        batch, q = make(tensors, rng, lens)
        tables = batch.tables(tensors)
        wrapper.plan(*tables, HEADS, KV_HEADS, DIM, 16)
        for buffer, table in zip(buffers, (batch.indptr, batch.indices, batch.last_page_len)):
            assert (tensors.read(buffer)[:len(table)] == table).all()
        check_attention(tensors, *wrapper.run(q, batch.cache, return_lse=True),
                        expected(batch, tensors.read(q)), "float16")
        # An engine fills the buffers itself.
        plan = partial(flashinfer.fast_decode_plan, wrapper)
        plan(*tables, HEADS, KV_HEADS, DIM, 16, q_data_type="float16",
             global_override_indptr_cpu=batch.indptr)
        check_attention(tensors, *wrapper.run(q, batch.cache, return_lse=True),
                        expected(batch, tensors.read(q)), "float16")
    with pytest.raises(ValueError, match="frozen"):
        wrapper.plan(*tables, HEADS, KV_HEADS, DIM, 16, q_len_per_req=2)
    batch, _ = make(tensors, rng, [5, 6])
    with pytest.raises(ValueError, match="last_page_len"):
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
    batch, _ = make(tensors, rng, [1000, 600, 600])
    with pytest.raises(ValueError, match="paged_kv_indices_buffer"):
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)


def test_workspace(tensors, rng):
    batch, q = make(tensors, rng, [3000, 20])
    big = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors))
    float_bytes, int_bytes = big.workspace_size(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
    assert float_bytes > 0 and int_bytes == 0
    exact = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors, float_bytes))
    exact.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
    check_attention(tensors, *exact.run(q, batch.cache, return_lse=True),
                    expected(batch, tensors.read(q)), "float16")
    exact.reset_workspace_buffer(workspace(tensors, 64), workspace(tensors, 64))
    if tensors.name == "cuda":  # kernels there do without splits
        exact.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
        check_attention(tensors, *exact.run(q, batch.cache, return_lse=True),
                        expected(batch, tensors.read(q)), "float16")
    else:
        with pytest.raises(ValueError, match="workspace"):
            exact.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
        with pytest.raises(ValueError, match="successful plan"):
            exact.run(q, batch.cache)
    with pytest.raises(ValueError, match="float_workspace_buffer"):
        decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors)[1:])


def test_errors_name_the_argument(tensors, rng):
    batch, q = make(tensors, rng, [20, 30])
    tables = batch.tables(tensors)
    sizes = (HEADS, KV_HEADS, DIM, 16)
    wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors))
    with pytest.raises(ValueError, match="before a successful plan"):
        wrapper.run(q, batch.cache)
    for match, plan_sizes, options in (
            ("num_qo_heads", (7, 2, DIM, 16), {}), ("head_dim_qk", (8, 2, 60, 16), {}),
            ("page_size", (8, 2, DIM, 0), {}), ("window_left", sizes, {"window_left": -2}),
            ("logits_soft_cap", sizes, {"logits_soft_cap": -1.0}),
            ("q_data_type", sizes, {"q_data_type": "int64"})):
        with pytest.raises(ValueError, match=match):
            wrapper.plan(*tables, *plan_sizes, **options)
    with pytest.raises(ValueError, match="last_page_len"):
        wrapper.plan(tables[0], tables[1], tensors.make(np.array([1, 17], np.int32)), *sizes)
    with pytest.raises(ValueError, match="indptr"):
        wrapper.plan(tensors.make(np.array([0, 3, 2], np.int32)), *tables[1:], *sizes)
    with pytest.raises(KeyError, match="pos_encoding_mode"):
        wrapper.plan(*tables, *sizes, pos_encoding_mode="rope")
    with pytest.raises(TypeError):
        wrapper.plan(*tables, *sizes, no_such_option=1)
    wrapper.plan(*tables, *sizes, window_left=4)
    out = tensors.full((2, HEADS, DIM), np.nan, "float16")
    for match, call in (
            ("q", lambda: wrapper.run(q[:1], batch.cache, out=out)),
            ("q", lambda: wrapper.run(tensors.full((2, HEADS, DIM), 0, "bfloat16"), batch.cache,
                                      out=out)),
            ("window_left", lambda: wrapper.run(q, batch.cache, window_left=5, out=out)),
            ("paged_kv_cache", lambda: wrapper.run(q, batch.cache[:, 0], out=out)),
            ("out", lambda: wrapper.run(q, batch.cache, out=out[:, :, :32])),
            ("lse", lambda: wrapper.run(q, batch.cache, out=out, return_lse=True,
                                        lse=tensors.full((2, HEADS - 1), 0, "float32"))),
            ("sinks", lambda: wrapper.run(q, batch.cache, out=out,
                                          sinks=tensors.full((3,), 0, "float32"))),
            ("q_len_per_req", lambda: wrapper.run(q, batch.cache, out=out, q_len_per_req=2))):
        with pytest.raises(ValueError, match=match):
            call()
    assert np.isnan(tensors.read(out)).all()
    for options in ({"kv_cache_sf": (q, q)}, {"skip_softmax_threshold_scale_factor": 1.0}):
        with pytest.raises(NotImplementedError, match=next(iter(options))):
            wrapper.run(q, batch.cache, **options)
    with pytest.raises(TypeError, match="dtype_q"):
        decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), jit_args=["x"])
    with pytest.raises(NotImplementedError, match="trtllm-gen"):
        decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), backend="trtllm-gen")
    with pytest.raises(ValueError, match="backend: is 'magic'"):
        decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), backend="magic")
    with pytest.raises(KeyError, match="kv_layout"):
        decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), "HDN")
    check_attention(tensors, wrapper.run(q, batch.cache), None,
                    expected(batch, tensors.read(q), window_left=4), "float16")


def test_backends_by_name(tensors, rng):
    batch, q = make(tensors, rng, [20])
    is_cuda = tensors.name == "cuda"
    for backend in ("fa2", "fa3", "cuda" if is_cuda else "cpu"):
        wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), backend=backend)
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
        check_attention(tensors, wrapper.run(q, batch.cache), None,
                        expected(batch, tensors.read(q)), "float16")
    other = "cpu" if is_cuda else "cuda.simt"
    wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors), backend=other)
    with pytest.raises(NotImplementedError, match=other):
        wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)


def test_threads(tensors, rng):
    batch, q = make(tensors, rng, [33, 64, 200])
    want = expected(batch, tensors.read(q))
    errors = []

    def work():
        try:
            wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace(tensors))
            for _ in range(20):
                wrapper.plan(*batch.tables(tensors), HEADS, KV_HEADS, DIM, 16)
                check_attention(tensors, *wrapper.run(q, batch.cache, return_lse=True), want,
                                "float16")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_scale_that_is_no_number_is_refused():
    q, k = np.ones((2, 8), np.float32), np.ones((3, 2, 8), np.float32)
    with pytest.raises(ValueError, match="sm_scale: is nan"):
        flashinfer.single_decode_with_kv_cache(q, k, k, sm_scale=float("nan"))
