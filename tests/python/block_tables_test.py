# SPDX-License-Identifier: Apache-2.0
"""The entry points over tables of pages (trtllm_*, xqa, cudnn_*) against float64 NumPy."""
import math

import numpy as np
import pytest
from attention_oracle import PagedBatch, attention, check_attention

import flashinfer
from flashinfer import cudnn, decode, prefill

HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 16


def workspace(tensors):
    return tensors.full((8 << 20,), 0, "uint8")


def starts(lens):
    return np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)


class Batch:
    """Requests over a table whose unused places are poison."""

    def __init__(self, tensors, rng, q_lens, kv_lens, *, layout="HND", dtype="bfloat16",
                 kv_dtype=None, is_pair=False):
        self.q_lens, self.kv_lens, self.tensors = q_lens, kv_lens, tensors
        self.pages = PagedBatch(rng, kv_lens, page_size=PAGE, heads=KV_HEADS, dim=DIM,
                                layout=layout, dtype=kv_dtype or dtype, tensors=tensors,
                                is_pair=is_pair)
        self.q = tensors.make(rng.standard_normal((sum(q_lens), HEADS, DIM)), dtype)
        counts = np.diff(self.pages.indptr)
        table = np.full((len(kv_lens), counts.max() + 2), 10**6, np.int32)
        for b, n in enumerate(counts):
            table[b, :n] = self.pages.indices[self.pages.indptr[b]:self.pages.indptr[b + 1]]
        self.table = tensors.make(table)
        self.lens = tensors.make(np.array(kv_lens, np.int32))
        self.begin = tensors.make(starts(q_lens))

    def expected(self, v_scale=1.0, masks=None, **options):
        begin, q = starts(self.q_lens), self.tensors.read(self.q)
        parts = [attention(q[begin[b]:begin[b + 1]], self.pages.keys(b),
                           self.pages.values(b) * v_scale,
                           mask=None if masks is None else masks[b], **options)
                 for b in range(len(self.q_lens))]
        return tuple(map(np.concatenate, zip(*parts)))


@pytest.mark.parametrize("layout", ["HND", "NHD"])
@pytest.mark.parametrize("kv_dtype", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("q_len", [1, 3])
def test_decode(tensors, rng, q_len, kv_dtype, layout):
    batch = Batch(tensors, rng, [q_len] * 3, [20, 130, 3], layout=layout, kv_dtype=kv_dtype,
                  is_pair=q_len == 3)
    sinks = rng.standard_normal(HEADS)
    options = {"kv_layout": layout, "q_len_per_req": q_len, "window_left": 40,
               "sinks": tensors.make(sinks, "float32"), "bmm1_scale": 0.2,
               "bmm2_scale": tensors.make([1.5], "float32"), "o_scale": 2.0}
    given = (batch.q, batch.pages.cache, workspace(tensors), batch.table, batch.lens, 130)
    want = batch.expected(1.5, causal=True, window_left=40, sinks=sinks, sm_scale=0.2)
    out = tensors.full(batch.q.shape, np.nan, "bfloat16")
    lse = tensors.full(batch.q.shape[:2], np.nan, "float32")
    got = decode.trtllm_batch_decode_with_kv_cache(*given, out=out, lse=lse, return_lse=True,
                                                   **options)
    assert got[0] is out and got[1] is lse
    check_attention(tensors, out, lse, want, "bfloat16")
    got = decode.xqa_batch_decode_with_kv_cache(*given, **options)
    assert (tensors.read(got) == tensors.read(out)).all()
    got = decode.trtllm_batch_decode_with_kv_cache(*given, out_dtype=tensors.dtype("float16"),
                                                   **options)
    assert got.dtype == tensors.dtype("float16")
    check_attention(tensors, got, None, want, "bfloat16")
    log2 = tensors.make([0.2 / np.log(2)], "float32")
    got = decode.trtllm_batch_decode_with_kv_cache(*given, bmm1_scale_log2=log2,
                                                   **{**options, "bmm1_scale": 7.0})
    check_attention(tensors, got, None, want, "bfloat16")


def test_requests_of_different_lengths(tensors, rng):
    batch = Batch(tensors, rng, [2, 1, 5], [20, 130, 7])
    given = (batch.q, batch.pages.cache, workspace(tensors), batch.table, batch.lens, 130)
    got = decode.trtllm_batch_decode_with_kv_cache(
        *given, bmm1_scale=0.2, cum_seq_lens_q=batch.begin, max_q_len=5, return_lse=True)
    check_attention(tensors, *got, batch.expected(causal=True, sm_scale=0.2), "bfloat16")
    with pytest.raises(ValueError, match="max_q_len"):
        decode.trtllm_batch_decode_with_kv_cache(*given, cum_seq_lens_q=batch.begin, max_q_len=4)


def test_draft_tree(tensors, rng):
    q_len, kv_lens = 4, [20, 35]
    batch = Batch(tensors, rng, [q_len] * 2, kv_lens)
    seen = rng.random((2, q_len, q_len)) < 0.5
    seen |= np.eye(q_len, dtype=bool)
    bits = np.zeros((2, q_len, 32), bool)
    bits[:, :, :q_len] = seen
    words = np.packbits(bits, axis=-1, bitorder="little").view(np.uint16)
    masks = []
    for b, n in enumerate(kv_lens):
        mask = np.ones((q_len, n), bool)
        mask[:, n - q_len:] = seen[b]
        masks.append(mask)
    got = decode.trtllm_batch_decode_with_kv_cache(
        batch.q, batch.pages.cache, workspace(tensors), batch.table, batch.lens, 64,
        bmm1_scale=0.2, q_len_per_req=q_len, mask=tensors.make(words), return_lse=True)
    check_attention(tensors, *got, batch.expected(masks=masks, sm_scale=0.2), "bfloat16")


@pytest.mark.parametrize("causal", [False, True])
def test_context(tensors, rng, causal):
    batch = Batch(tensors, rng, [5, 1, 30], [20, 130, 30], is_pair=True)
    got = prefill.trtllm_batch_context_with_kv_cache(
        batch.q, batch.pages.cache, workspace(tensors), batch.table, batch.lens, 30, 130, 0.2, 2.0,
        3, batch.begin, tensors.make(starts([20, 130, 30])), window_left=50, causal=causal,
        return_lse=True)
    check_attention(tensors, *got, batch.expected(2.0, causal=causal, window_left=50,
                                                  sm_scale=0.2), "bfloat16")


@pytest.mark.parametrize("q_len", [1, 3])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_xqa(tensors, rng, layout, q_len):
    batch = Batch(tensors, rng, [q_len] * 2, [20, 70], layout=layout, dtype="float16",
                  kv_dtype="float8_e4m3fn", is_pair=True)
    sinks = rng.standard_normal((KV_HEADS, HEADS // KV_HEADS))
    shape = (2, 1, HEADS, DIM) if q_len == 1 else (2, 1, q_len, HEADS, DIM)
    out = tensors.full(shape, np.nan, "float16")
    flashinfer.xqa(batch.q.reshape(shape), *batch.pages.cache, batch.table,
                   tensors.make(np.array([[20], [70]], np.uint32)), out, workspace(tensors),
                   tensors.full((64,), 0, "int32"), KV_HEADS, PAGE,
                   tensors.make(sinks, "float32"), q_scale=0.5, kv_scale=2.0, sliding_win_size=31,
                   kv_layout=layout, rcp_out_scale=0.25, q_seq_len=q_len)
    check_attention(tensors, out.reshape(-1, HEADS, DIM), None, batch.expected(
        0.5, causal=True, window_left=30, sinks=sinks.reshape(-1),
        sm_scale=1 / math.sqrt(DIM)), "float16")
    with pytest.raises(ValueError, match="page_size"):
        flashinfer.xqa(batch.q.reshape(shape), *batch.pages.cache, batch.table, batch.lens, out,
                       workspace(tensors), None, KV_HEADS, PAGE * 2, kv_layout=layout)


def test_cudnn_decode(tensors, rng):
    batch = Batch(tensors, rng, [1, 1], [20, 70], is_pair=True)
    lens = tensors.make(np.array([20, 70], np.int32).reshape(2, 1, 1, 1))
    out = decode.cudnn_batch_decode_with_kv_cache(
        batch.q, *batch.pages.cache, 0.2, workspace(tensors), max_sequence_kv=70,
        actual_seq_lens_kv=lens, block_tables=batch.table,
        batch_offsets_q=tensors.make(np.arange(3) * HEADS * DIM))
    check_attention(tensors, out, None, batch.expected(sm_scale=0.2), "bfloat16")
    with pytest.raises(ValueError, match="max_sequence_kv"):
        decode.cudnn_batch_decode_with_kv_cache(
            batch.q, *batch.pages.cache, 0.2, workspace(tensors), max_sequence_kv=60,
            actual_seq_lens_kv=lens, block_tables=batch.table)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("is_paged", [False, True])
def test_cudnn_prefill(tensors, rng, is_paged, causal):
    q_lens, kv_lens = [5, 2, 9], [20, 70, 9]
    batch = Batch(tensors, rng, q_lens, kv_lens, is_pair=True)
    cache = batch.pages.cache
    if not is_paged:
        cache = [tensors.make(np.concatenate([f(b) for b in range(3)]), "bfloat16")
                 for f in (batch.pages.keys, batch.pages.values)]
    lens = [tensors.make(np.array(x, np.int32).reshape(3, 1, 1, 1)) for x in (q_lens, kv_lens)]
    options = {"max_token_per_sequence": 9, "max_sequence_kv": 70, "causal": causal,
               "return_lse": True, "block_tables": batch.table if is_paged else None}
    out, lse = cudnn.cudnn_batch_prefill_with_kv_cache(
        batch.q, *cache, 0.2, workspace(tensors), actual_seq_lens_q=lens[0],
        actual_seq_lens_kv=lens[1], batch_offsets_q=tensors.make(starts(q_lens) * HEADS * DIM),
        **options)
    o, s = batch.expected(causal=causal, sm_scale=0.2)
    begin = starts(q_lens)
    rows = np.concatenate([tensors.read(lse)[b, :n] for b, n in enumerate(q_lens)])
    assert np.isneginf(tensors.read(lse)[1, 2:]).all()
    check_attention(tensors, out, tensors.make(rows), (o, s), "bfloat16")
    packed = tensors.full(batch.q.shape[:2], np.nan, "float32")
    kv_offsets = {} if is_paged else {"batch_offsets_k": tensors.make(starts(kv_lens)),
                                      "batch_offsets_v": tensors.make(starts(kv_lens))}
    out, lse = cudnn.cudnn_batch_prefill_with_kv_cache(
        batch.q, *cache, 0.2, workspace(tensors), batch_offsets_units="tokens",
        batch_offsets_q=tensors.make(begin), batch_offsets_stats=tensors.make(begin), lse=packed,
        actual_seq_lens_kv=lens[1] if is_paged else None, **kv_offsets, **options)
    assert lse is packed
    check_attention(tensors, out, lse, (o, s), "bfloat16")
    with pytest.raises(NotImplementedError, match="batch_offsets_o"):
        cudnn.cudnn_batch_prefill_with_kv_cache(
            batch.q, *cache, 0.2, workspace(tensors), actual_seq_lens_q=lens[0],
            actual_seq_lens_kv=lens[1], batch_offsets_o=tensors.make(begin + 1), **options)


def test_errors_name_the_argument(tensors, rng):
    batch = Batch(tensors, rng, [1, 1], [20, 70])
    run = decode.trtllm_batch_decode_with_kv_cache
    given = [batch.q, batch.pages.cache, workspace(tensors), batch.table, batch.lens, 70]

    def changed(place, value):
        return [*given[:place], value, *given[place + 1:]]

    for match, args in (
            ("query", changed(0, batch.q[:1])), ("kv_cache", changed(1, batch.pages.cache[:, :1])),
            ("block_tables", changed(3, batch.table[:1])), ("max_seq_len", changed(5, 69)),
            ("seq_lens", changed(4, tensors.make(np.array([20, 1000], np.int32)))[:5] + [1000]),
            ("seq_lens", changed(4, tensors.make(np.array([-1, 20], np.int32)))),
            *([("indices", changed(4, tensors.make(np.array([40, 70], np.int32))))]
              if tensors.name != "cuda" else [])):  # where they cannot be read
        with pytest.raises(ValueError, match=match):
            run(*args)
    for options in ({"kv_cache_sf": (1, 2)}, {"o_sf_scale": 1.0},
                    {"skip_softmax_threshold_scale_factor": 1.0},
                    {"enable_block_sparse_attention": True}, {"uses_shared_paged_kv_idx": False}):
        with pytest.raises(NotImplementedError, match=next(iter(options))):
            run(*given, **options)
    with pytest.raises(ValueError, match="sinks"):
        run(*given, sinks=tensors.full((3,), 0, "float32"))
    check_attention(tensors, run(*given), None, batch.expected(sm_scale=1.0), "bfloat16")
