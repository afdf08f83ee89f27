# SPDX-License-Identifier: Apache-2.0
"""flashinfer.pod and flashinfer.attention against float64 NumPy."""
import numpy as np
import pytest
from attention_oracle import PagedBatch, attention, check_attention

import flashinfer

HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 16
SIZES = (HEADS, KV_HEADS, DIM, PAGE)


def workspace(tensors):
    return tensors.full((8 << 20,), 0, "uint8")


def starts(lens):
    return np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)


class Batch:
    def __init__(self, tensors, rng, q_lens, kv_lens, dtype="float16", layout="NHD"):
        self.q_lens = q_lens
        self.pages = PagedBatch(rng, kv_lens, page_size=PAGE, heads=KV_HEADS, dim=DIM,
                                dtype=dtype, tensors=tensors, layout=layout)
        self.q = tensors.make(rng.standard_normal((sum(q_lens), HEADS, DIM)), dtype)
        self.indptr = tensors.make(starts(q_lens))
        self.tables = self.pages.tables(tensors)
        self.tensors = tensors

    def expected(self, masks=None, k_scale=1.0, v_scale=1.0, **options):
        begin, q = starts(self.q_lens), self.tensors.read(self.q)
        parts = [attention(q[begin[b]:begin[b + 1]], self.pages.keys(b) * k_scale,
                           self.pages.values(b) * v_scale,
                           mask=None if masks is None else masks[b], **options)
                 for b in range(len(self.q_lens))]
        return tuple(map(np.concatenate, zip(*parts)))


@pytest.mark.parametrize("causal", [False, True])
def test_pod(tensors, rng, causal):
    decode = Batch(tensors, rng, [1, 1, 1], [20, 1, 130])
    q, k, v = (tensors.make(rng.standard_normal((n, h, DIM)), "float16")
               for n, h in ((9, HEADS), (33, KV_HEADS), (33, KV_HEADS)))
    wrapper = flashinfer.PODWithPagedKVCacheWrapper(workspace(tensors))
    wrapper.plan(*decode.tables, *SIZES, window_left=30, sm_scale=0.2)
    prefill, (o, s) = wrapper.run(q, k, v, decode.q, decode.pages.cache, causal_p=causal,
                                  window_left_p=7, return_lse_d=True)
    arrays = [tensors.read(t) for t in (q, k, v)]
    check_attention(tensors, prefill, None, attention(*arrays, causal=causal, window_left=7),
                    "float16")
    check_attention(tensors, o, s, decode.expected(window_left=30, sm_scale=0.2), "float16")
    mask = rng.random((9, 33)) < 0.5
    (o, s), d = wrapper.run(q, k, v, decode.q, decode.pages.cache, return_lse_p=True,
                            custom_mask_p=tensors.make(mask), v_scale=2.0)
    check_attention(tensors, o, s, attention(*arrays, mask=mask), "float16")
    check_attention(tensors, d, None, decode.expected(window_left=30, sm_scale=0.2, v_scale=2.0),
                    "float16")
    with pytest.warns(DeprecationWarning):
        wrapper.run(q, k, v, decode.q, decode.pages.cache, window_left_d=30)
    with pytest.raises(ValueError, match="differs from the value planned"), (
            pytest.warns(DeprecationWarning)):
        wrapper.run(q, k, v, decode.q, decode.pages.cache, window_left_d=-1)
    with pytest.raises(NotImplementedError, match="non-causal"):
        wrapper.run(q, k, v, decode.q, decode.pages.cache, causal_d=True)
    with pytest.raises(NotImplementedError, match="custom_mask_d"):
        wrapper.run(q, k, v, decode.q, decode.pages.cache, custom_mask_d=tensors.make(mask))


def test_batch_pod(tensors, rng):
    prefill = Batch(tensors, rng, [5, 30], [5, 40])
    decode = Batch(tensors, rng, [1, 1], [20, 70])
    wrapper = flashinfer.BatchPODWithPagedKVCacheWrapper(workspace(tensors))
    wrapper.plan(prefill.indptr, *prefill.tables, decode.indptr, *decode.tables, *SIZES)
    masks = [rng.random((5, 5)) < 0.6, rng.random((30, 40)) < 0.6]
    flat = tensors.make(np.concatenate([m.reshape(-1) for m in masks]))
    for options, named in (({"causal_p": True}, {"causal": True}), ({}, {}),
                           ({"custom_mask_p": flat}, {"masks": masks}),
                           ({"causal_p": True}, {"causal": True})):
        p, d = wrapper.run(prefill.q, prefill.pages.cache, decode.q, decode.pages.cache,
                           return_lse=True, **options)
        check_attention(tensors, *p, prefill.expected(**named), "float16")
        check_attention(tensors, *d, decode.expected(), "float16")


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("causal", [False, True])
def test_batch_attention(tensors, rng, causal, layout):
    kv_lens = [20, 7, 40, 0]
    batch = Batch(tensors, rng, [1, 5, 33, 2], kv_lens, "bfloat16", layout)
    wrapper = flashinfer.BatchAttention(layout, "cuda" if tensors.name == "cuda" else "cpu")
    lens = tensors.make(np.array(kv_lens, np.int32))
    wrapper.plan(batch.indptr, *batch.tables[:2], lens, HEADS, KV_HEADS, DIM, DIM, PAGE, causal,
                 logits_soft_cap=3.0)
    got = wrapper.run(batch.q, batch.pages.cache, logits_soft_cap=3.0, k_scale=0.5, v_scale=2.0)
    check_attention(tensors, *got, batch.expected(causal=causal, soft_cap=3.0, k_scale=0.5,
                                                  v_scale=2.0), "bfloat16")
    with pytest.raises(ValueError, match="logits_soft_cap"):
        wrapper.run(batch.q, batch.pages.cache, logits_soft_cap=2.0)
    with pytest.raises(ValueError, match="kv_len_arr"):
        wrapper.plan(batch.indptr, *batch.tables[:2], tensors.make(np.array([40] * 4, np.int32)),
                     HEADS, KV_HEADS, DIM, DIM, PAGE)


@pytest.mark.parametrize("window_left", [-1, 9])
def test_sinks(tensors, rng, window_left):
    from flashinfer.jit.attention.variants import attention_sink_decl

    batch = Batch(tensors, rng, [1, 5, 33], [20, 7, 40], "bfloat16")
    sinks = rng.standard_normal(HEADS)
    given = tensors.make(sinks, "float32")
    want = batch.expected(causal=True, window_left=window_left, sm_scale=0.2, sinks=sinks)
    jit_args = ["name", "bfloat16", "bfloat16", "bfloat16", "int32", DIM, DIM, ["sink"], ["float"],
                ["sm_scale"], ["double"], "AttentionSink", attention_sink_decl["fa2"]]
    for wrapper in (
            flashinfer.BatchAttentionWithAttentionSinkWrapper(
                workspace(tensors), head_dim_qk=DIM, head_dim_vo=DIM, window_left=window_left),
            flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace(tensors), backend="fa2",
                                                           jit_args=jit_args)):
        for _ in range(2):
            wrapper.plan(batch.indptr, *batch.tables, *SIZES, causal=True, q_data_type="bfloat16",
                         window_left=window_left)
            got = wrapper.run(batch.q, batch.pages.cache, given, 0.2, return_lse=True)
            check_attention(tensors, *got, want, "bfloat16")
        with pytest.raises(ValueError, match="sink"):
            wrapper.run(batch.q, batch.pages.cache, given)
    rows = [np.concatenate([f(b) for b in range(3)]) for f in (batch.pages.keys,
                                                               batch.pages.values)]
    k, v = (tensors.make(x, "bfloat16") for x in rows)
    ragged = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
        workspace(tensors), backend="fa3", jit_args=tuple(jit_args),
        jit_kwargs={"use_sliding_window": window_left >= 0})
    ragged.plan(batch.indptr, tensors.make(starts([20, 7, 40])), HEADS, KV_HEADS, DIM, causal=True,
                q_data_type="bfloat16", window_left=window_left)
    check_attention(tensors, *ragged.run(batch.q, k, v, given, 0.2, return_lse=True), want,
                    "bfloat16")
    # Pages of one token, without their dimension.
    tokens = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace(tensors), jit_args=jit_args)
    tokens.plan(batch.indptr, tensors.make(starts([20, 7, 40])),
                tensors.make(np.arange(67, dtype=np.int32)),
                tensors.make(np.ones(3, np.int32)), HEADS, KV_HEADS, DIM, 1, causal=True,
                q_data_type="bfloat16", window_left=window_left)
    check_attention(tensors, *tokens.run(batch.q, (k, v), given, 0.2, return_lse=True), want,
                    "bfloat16")
    with pytest.raises(ValueError, match="window_left"):
        flashinfer.BatchAttentionWithAttentionSinkWrapper(
            workspace(tensors), head_dim_qk=DIM, head_dim_vo=DIM, window_left=4).plan(
                batch.indptr, *batch.tables, *SIZES, q_data_type="bfloat16")
