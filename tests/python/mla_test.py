# SPDX-License-Identifier: Apache-2.0
"""flashinfer.mla against float64 NumPy."""
import math

import numpy as np
import pytest
from attention_oracle import attention, check_attention
from conftest import check_close

import flashinfer
from flashinfer import mla

HEADS, CKV, KPE, PAGE = 4, 64, 16, 8


def workspace(tensors):
    return tensors.full((8 << 20,), 0, "uint8")


class Batch:
    """Latents of requests scattered over a pool whose other slots are poison."""

    def __init__(self, tensors, rng, kv_lens, kpe=KPE, dtype="bfloat16"):
        pages = [-(-n // PAGE) + 1 for n in kv_lens]  # room for tokens to come
        pool = sum(pages) + 2
        ids = rng.permutation(pool)[:sum(pages)]
        self.indptr = np.concatenate([[0], np.cumsum(pages)]).astype(np.int32)
        self.indices = ids.astype(np.int32)
        self.kv_lens = np.array(kv_lens, np.int32)
        ckv, pe = np.full((pool, PAGE, CKV), np.nan), np.full((pool, PAGE, kpe), np.nan)
        self.slots = []
        for b, n in enumerate(kv_lens):
            t = np.arange(n)
            slot = (ids[self.indptr[b] + t // PAGE], t % PAGE)
            ckv[slot] = rng.standard_normal((n, CKV))
            pe[slot] = rng.standard_normal((n, kpe))
            self.slots.append(slot)
        self.both = tensors.make(np.concatenate([ckv, pe], axis=2), dtype)
        self.ckv, self.kpe = self.both[:, :, :CKV], self.both[:, :, CKV:]
        self.tensors = tensors

    def keys(self, b, ckv_scale=1.0, kpe_scale=1.0):
        read = self.tensors.read(self.both)[self.slots[b]]
        scale = ckv_scale[self.slots[b]] if isinstance(ckv_scale, np.ndarray) else ckv_scale
        return read[:, :CKV] * scale, read[:, CKV:] * kpe_scale


def expected(tensors, batch, q_nope, q_pe, q_lens, *, ckv_scale=1.0, kpe_scale=1.0, **options):
    begin = np.concatenate([[0], np.cumsum(q_lens)])
    q = np.concatenate([tensors.read(q_nope), tensors.read(q_pe)], axis=2)
    parts = []
    for b in range(len(q_lens)):
        ckv, kpe = batch.keys(b, ckv_scale, kpe_scale)
        parts.append(attention(q[begin[b]:begin[b + 1]],
                               np.concatenate([ckv, kpe], axis=1)[:, None], ckv[:, None],
                               **options))
    return tuple(map(np.concatenate, zip(*parts)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kpe", [KPE, 0])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("use_cuda_graph", [False, True])
def test_paged(tensors, rng, dtype, kpe, causal, use_cuda_graph):
    q_lens, kv_lens = [1, 3, 5, 2], [40, 3, 20, 0]
    batch = Batch(tensors, rng, kv_lens, kpe, dtype)
    q_nope = tensors.make(rng.standard_normal((11, HEADS, CKV)), dtype)
    q_pe = tensors.make(rng.standard_normal((11, HEADS, kpe)), dtype)
    longer = np.append(batch.indptr, np.int32([3, 1]))  # what is behind is not read
    tables = [tensors.make(t) for t in (np.array([0, 1, 4, 9, 11], np.int32), longer,
                                        batch.indices, batch.kv_lens)]
    buffers = [tensors.full((len(t) + 3 * (i == 2),), -1, "int32") for i, t in enumerate(tables)]
    wrapper = flashinfer.BatchMLAPagedAttentionWrapper(
        workspace(tensors), use_cuda_graph, *(buffers if use_cuda_graph else []))
    with pytest.raises(ValueError, match="before a successful plan"):
        wrapper.run(q_nope, q_pe, batch.ckv, batch.kpe)
    wrapper.plan(*tables, HEADS, CKV, kpe, PAGE, causal, 0.1, tensors.dtype(dtype),
                 tensors.dtype(dtype))
    want = expected(tensors, batch, q_nope, q_pe, q_lens, causal=causal, sm_scale=0.1)
    out = tensors.full(q_nope.shape, np.nan, dtype)
    lse = tensors.full((11, HEADS), np.nan, "float32")
    given = (q_pe, batch.ckv, batch.kpe) if kpe else (None, batch.ckv, None)
    result = wrapper.run(q_nope, *given, out=out, lse=lse, return_lse=True)
    assert result[0] is out and result[1] is lse
    check_attention(tensors, out, lse, want, dtype)
    out, lse = wrapper.run(q_nope, *given, return_lse_base_on_e=True, return_lse=True)
    check_attention(tensors, out, lse, (want[0], want[1] * np.log(2)), dtype)
    assert (tensors.read(wrapper.run(q_nope, *given)) == tensors.read(out)).all()
    if use_cuda_graph:
        assert (tensors.read(buffers[3]) == batch.kv_lens).all()
        with pytest.raises(ValueError, match="kv_indices"):
            flashinfer.BatchMLAPagedAttentionWrapper(workspace(tensors), True, *buffers[:2])


@pytest.mark.parametrize("per_block", [False, True])
def test_quantised_cache(tensors, rng, per_block):
    batch = Batch(tensors, rng, [30, 12], dtype="float8_e4m3fn")
    q_nope = tensors.make(rng.standard_normal((2, HEADS, CKV)), "bfloat16")
    q_pe = tensors.make(rng.standard_normal((2, HEADS, KPE)), "bfloat16")
    wrapper = flashinfer.BatchMLAPagedAttentionWrapper(workspace(tensors), backend="fa3")
    wrapper.plan(*[tensors.make(t) for t in (np.array([0, 1, 2], np.int32), batch.indptr,
                                             batch.indices, batch.kv_lens)],
                 HEADS, CKV, KPE, PAGE, False, 0.1, "bfloat16", "float8_e4m3fn")
    # At most 1: the limit on out is one for values of that size.
    scales = rng.uniform(0.25, 1, (*batch.ckv.shape[:2], 2))
    wide = np.repeat(scales, CKV // 2, axis=2) if per_block else 0.75
    got = wrapper.run(q_nope, q_pe, batch.ckv, batch.kpe, return_lse=True, kpe_scale=0.5,
                      ckv_scale=None if per_block else 0.75,
                      ckv_scale_arr=tensors.make(scales, "float32") if per_block else None)
    check_attention(tensors, *got, expected(tensors, batch, q_nope, q_pe, [1, 1], sm_scale=0.1,
                                            ckv_scale=wide, kpe_scale=0.5), "bfloat16",
                    lse_limit=1e-2)  # keys are rounded after they are scaled


def test_decode(tensors, rng):
    kpe = CKV // 8
    batch = Batch(tensors, rng, [20, 7, 1], kpe, "float16")
    used = [batch.indices[batch.indptr[b]:batch.indptr[b] - (-n // PAGE)]
            for b, n in enumerate(batch.kv_lens)]
    indptr = np.concatenate([[0], np.cumsum([len(u) for u in used])]).astype(np.int32)
    last = ((batch.kv_lens - 1) % PAGE + 1).astype(np.int32)
    q_nope = tensors.make(rng.standard_normal((3, HEADS, CKV)), "float16")
    q_pe = tensors.make(rng.standard_normal((3, HEADS, kpe)), "float16")
    wrapper = flashinfer.BatchDecodeMlaWithPagedKVCacheWrapper(workspace(tensors))
    wrapper.plan(*[tensors.make(t) for t in (indptr, np.concatenate(used), last)], HEADS, CKV,
                 PAGE, 0.1, window_left=9, logits_soft_cap=2.0)
    got = wrapper.run(q_nope, q_pe, batch.ckv, batch.kpe, return_lse=True)
    check_attention(tensors, *got, expected(tensors, batch, q_nope, q_pe, [1, 1, 1], sm_scale=0.1,
                                            window_left=9, soft_cap=2.0), "float16")
    with pytest.raises(NotImplementedError, match="k_scale"):
        wrapper.run(q_nope, q_pe, batch.ckv, batch.kpe, k_scale=2.0)
    with pytest.raises(NotImplementedError, match="rope_theta"):
        wrapper.plan(*[tensors.make(t) for t in (indptr, np.concatenate(used), last)], HEADS, CKV,
                     PAGE, 0.1, rope_theta=500.0)


def test_errors_name_the_argument(tensors, rng):
    batch = Batch(tensors, rng, [20, 7])
    tables = [tensors.make(t) for t in (np.array([0, 1, 2], np.int32), batch.indptr,
                                        batch.indices, batch.kv_lens)]
    q_nope = tensors.make(rng.standard_normal((2, HEADS, CKV)), "bfloat16")
    q_pe = tensors.make(rng.standard_normal((2, HEADS, KPE)), "bfloat16")
    wrapper = flashinfer.BatchMLAPagedAttentionWrapper(workspace(tensors))
    dtypes = ("bfloat16", "bfloat16")
    for match, sizes in (("sm_scale", (HEADS, CKV, KPE, PAGE, False, 0.0)),
                         ("head_dim_ckv", (HEADS, 63, KPE, PAGE, False, 0.1))):
        with pytest.raises(ValueError, match=match):
            wrapper.plan(*tables, *sizes, *dtypes)
    with pytest.raises(ValueError, match="kv_len"):
        wrapper.plan(*tables[:3], tensors.make(np.array([20, 100], np.int32)), HEADS, CKV, KPE,
                     PAGE, False, 0.1, *dtypes)
    with pytest.raises(NotImplementedError, match="use_profiler"):
        wrapper.plan(*tables, HEADS, CKV, KPE, PAGE, False, 0.1, *dtypes, True)
    wrapper.plan(*tables, HEADS, CKV, KPE, PAGE, False, 0.1, *dtypes)
    with pytest.raises(ValueError, match="q_pe"):
        wrapper.run(q_nope, q_pe[:1], batch.ckv, batch.kpe)
    with pytest.raises(ValueError, match="ckv_scale"):
        wrapper.run(q_nope, q_pe, batch.ckv, batch.kpe, ckv_scale=2.0)
    for name in ("kv_len", "page_table", "profiler_buffer", "o_scale"):
        with pytest.raises(NotImplementedError, match=name):
            wrapper.run(q_nope, q_pe, batch.ckv, batch.kpe, **{name: 1.0})
    for backend in ("cutlass", "trtllm-gen"):
        with pytest.raises(NotImplementedError, match=backend):
            flashinfer.BatchMLAPagedAttentionWrapper(workspace(tensors), backend=backend)


@pytest.mark.parametrize("dtype,v_scale", [("bfloat16", 1.0), ("float8_e4m3fn", 0.5),
                                           ("bfloat16", 2.0)])
@pytest.mark.parametrize("q_len", [1, 3])
def test_tables(tensors, rng, q_len, dtype, v_scale):
    kv_lens = [30, 9]
    batch = Batch(tensors, rng, kv_lens, dtype=dtype)
    table = np.full((2, 8), 10**6, np.int32)
    for b, n in enumerate(kv_lens):
        ids = batch.indices[batch.indptr[b]:batch.indptr[b] - (-n // PAGE)]
        table[b, :len(ids)] = ids
    query = tensors.make(rng.standard_normal((2, q_len, HEADS, CKV + KPE)), "bfloat16")
    given = (query, batch.both[:, None], workspace(tensors), 128, CKV, KPE, tensors.make(table),
             tensors.make(batch.kv_lens), 30)
    out = tensors.full((2, q_len, HEADS, CKV), np.nan, "bfloat16")
    got = mla.trtllm_batch_decode_with_kv_cache_mla(*given, out=out, bmm1_scale=0.1,
                                                    bmm2_scale=v_scale, return_lse=True)
    assert got[0] is out
    flat = query.reshape(-1, HEADS, CKV + KPE)
    o, s = expected(tensors, batch, flat[..., :CKV], flat[..., CKV:], [q_len] * 2, causal=True,
                    sm_scale=0.1)
    check_attention(tensors, out.reshape(-1, HEADS, CKV), got[1], (v_scale * o, s), "bfloat16",
                    lse_limit=1e-2)
    same = mla.xqa_batch_decode_with_kv_cache_mla(*given, bmm1_scale=0.1, bmm2_scale=v_scale)
    assert (tensors.read(same) == tensors.read(out)).all()
    with pytest.raises(NotImplementedError, match="sinks"):
        mla.trtllm_batch_decode_with_kv_cache_mla(*given, sinks=query)
    with pytest.raises(ValueError, match="kv_cache"):
        mla.trtllm_batch_decode_with_kv_cache_mla(query, batch.ckv, *given[2:])


@pytest.mark.parametrize("q_lens", [[1, 1, 1], [3, 5, 1]])
@pytest.mark.parametrize("world", [1, 3])
def test_keys_shared_among_ranks(tensors, rng, q_lens, world):
    kv_lens = [30, 9, 1]
    batch = Batch(tensors, rng, kv_lens, dtype="float16")
    query = tensors.make(rng.standard_normal((sum(q_lens), HEADS, CKV + KPE)), "float16")
    rows = np.concatenate([[0], np.cumsum(q_lens)]).astype(np.int32)
    both = tensors.read(batch.both)
    states = []
    for rank in range(world):
        cache, table, lens = np.full((20, PAGE, CKV + KPE), np.nan), [], []
        for b, n in enumerate(kv_lens):
            local = both[batch.slots[b]][rank::world]
            pages = rng.permutation(20)[:5] if not table else np.setdiff1d(
                np.arange(20), np.concatenate(table))[:5]
            t = np.arange(len(local))
            cache[pages[t // PAGE], t % PAGE] = local
            table.append(pages)
            lens.append(len(local))
        states.append(mla.trtllm_batch_decode_with_kv_cache_mla(
            query, tensors.make(cache, "float16"), workspace(tensors), 128, CKV, KPE,
            tensors.make(np.array(table, np.int32)), tensors.make(np.array(lens, np.int32)), 30,
            bmm1_scale=0.1, return_lse=True, cum_seq_lens_q=tensors.make(rows), enable_dcp=True,
            cp_world=world, cp_rank=rank,
            causal_seqlens_kv_global=tensors.make(np.array(kv_lens, np.int32))))
    out, lse = (np.stack([tensors.read(state[i]).astype(np.float64) for state in states])
                for i in range(2))
    most = lse.max(axis=0)
    weights = 2.0 ** (lse - np.where(np.isfinite(most), most, 0))
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        merged = np.where(total[..., None] > 0, (weights[..., None] * out).sum(axis=0)
                          / total[..., None], 0), most + np.log2(total)
    want = expected(tensors, batch, query[..., :CKV], query[..., CKV:], q_lens, causal=True,
                    sm_scale=0.1)
    check_attention(tensors, *(tensors.make(x, d) for x, d in zip(merged, ("float32",) * 2)), want,
                    "float16", lse_limit=1e-2)


def test_arguments_of_ranks_are_checked(tensors, rng):
    batch = Batch(tensors, rng, [30], dtype="float16")
    query = tensors.make(rng.standard_normal((1, 1, HEADS, CKV + KPE)), "float16")
    table, lens = np.full((1, 5), 0, np.int32), tensors.make(batch.kv_lens)
    given = (query, batch.both, workspace(tensors), 128, CKV, KPE, tensors.make(table), lens, 30)
    run = mla.trtllm_batch_decode_with_kv_cache_mla
    ranks = {"enable_dcp": True, "return_lse": True, "causal_seqlens_kv_global": lens}
    for words, wrong in (("of no use without enable_dcp", {"cp_world": 2}),
                         ("return_lse: is False", {**ranks, "return_lse": False}),
                         ("cp_world, cp_rank: are 2 and 2", {**ranks, "cp_world": 2, "cp_rank": 2}),
                         ("causal_seqlens_kv_global: is None",
                          {**ranks, "causal_seqlens_kv_global": None}),
                         ("sparse_mla_top_k: cannot be", {**ranks, "sparse_mla_top_k": 5})):
        with pytest.raises(ValueError, match=words):
            run(*given, **wrong)


@pytest.mark.parametrize("q_dtype", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("kv_dtype", ["bfloat16", "float8_e4m3fn"])
def test_queries_of_8_bits(tensors, rng, q_dtype, kv_dtype):
    batch = Batch(tensors, rng, [30, 9], dtype=kv_dtype)
    table = np.zeros((2, 8), np.int32)
    for b, n in enumerate([30, 9]):
        ids = batch.indices[batch.indptr[b]:batch.indptr[b] - (-n // PAGE)]
        table[b, :len(ids)] = ids
    query = tensors.make(rng.standard_normal((2, 1, HEADS, CKV + KPE)), q_dtype)
    given = (query, batch.both, workspace(tensors), 128, CKV, KPE, tensors.make(table),
             tensors.make(batch.kv_lens), 30)
    out, lse = mla.trtllm_batch_decode_with_kv_cache_mla(*given, bmm1_scale=0.05, bmm2_scale=1.5,
                                                         return_lse=True)
    assert out.dtype == tensors.dtype("bfloat16")
    flat = query.reshape(-1, HEADS, CKV + KPE)
    o, s = expected(tensors, batch, flat[..., :CKV], flat[..., CKV:], [1, 1], causal=True,
                    sm_scale=0.05)
    check_attention(tensors, out.reshape(-1, HEADS, CKV), lse, (1.5 * o, s), "bfloat16",
                    lse_limit=1e-2)


@pytest.mark.parametrize("gives_lens", [None, "requests", "queries"])
@pytest.mark.parametrize("q_lens", [[1, 1], [2, 2], [1, 3]])
def test_chosen_keys(tensors, rng, q_lens, gives_lens):
    kv_lens, top_k = [30, 5], 8
    batch = Batch(tensors, rng, kv_lens)
    num_tokens = sum(q_lens)
    table = np.full((num_tokens, top_k), -1, np.int32)
    counts = np.zeros(num_tokens, np.int32)
    lens_by_request = np.array([6, 3], np.int32)
    query = rng.standard_normal((num_tokens, HEADS, CKV + KPE))
    q = tensors.make(query, "bfloat16")
    cache = tensors.read(batch.both)
    want, token = [], 0
    for b, q_len in enumerate(q_lens):
        ids = batch.indices[batch.indptr[b]:]
        for _ in range(q_len):
            chosen = rng.permutation(kv_lens[b])[:top_k]
            table[token, :len(chosen)] = ids[chosen // PAGE] * PAGE + chosen % PAGE
            counts[token] = rng.integers(0, len(chosen) + 1)
            used = {"requests": lens_by_request[b], "queries": counts[token]}.get(gives_lens, top_k)
            keys = cache[ids[chosen // PAGE], chosen % PAGE][:used]
            scores = np.einsum("hd,kd->hk", tensors.read(q)[token], keys) * 0.1
            weight = np.exp(scores - scores.max(axis=1, initial=-1e30, keepdims=True))
            total = weight.sum(axis=1, keepdims=True)
            want.append(weight @ keys[:, :CKV] / np.where(total > 0, total, 1))
            token += 1
    is_even = len(set(q_lens)) == 1
    shape = (2, q_lens[0]) if is_even else (num_tokens,)
    options = {"sparse_mla_top_k": top_k, "bmm1_scale": 0.1}
    if not is_even:
        options["cum_seq_lens_q"] = tensors.make(np.concatenate([[0], np.cumsum(q_lens)]), "int32")
    if gives_lens:
        options["sparse_mla_top_k_lens"] = tensors.make(
            lens_by_request if gives_lens == "requests" else counts)
    given = (q.reshape(*shape, HEADS, CKV + KPE), batch.both, workspace(tensors), 128, CKV, KPE,
             tensors.make(table).reshape(*shape, top_k), tensors.make(batch.kv_lens), 30)
    if gives_lens == "queries" and num_tokens == 2:
        return  # one for each request, then
    out = mla.trtllm_batch_decode_with_kv_cache_mla(*given, **options)
    assert tuple(out.shape) == (*shape, HEADS, CKV)
    check_attention(tensors, out.reshape(-1, HEADS, CKV), None, (np.stack(want), None), "bfloat16")
    with pytest.raises(ValueError, match="block_tables: has shape"):
        mla.trtllm_batch_decode_with_kv_cache_mla(*given, **{**options, "sparse_mla_top_k": 9})
    with pytest.raises(ValueError, match="sparse_mla_top_k_lens: has 7 numbers"):
        mla.trtllm_batch_decode_with_kv_cache_mla(*given, **{
            **options, "sparse_mla_top_k_lens": tensors.make(np.ones(7, np.int32))})


@pytest.mark.parametrize("has_second_dimension", [False, True])
def test_xqa_mla(tensors, rng, has_second_dimension):
    heads, rank, rope, page, kv_lens = 4, 512, 64, 32, [40, 7]
    pages = rng.standard_normal((4, page, rank + rope))
    cache = tensors.make(pages, "float8_e4m3fn")
    table = np.array([[2, 0], [3, -1]], np.int32)
    q = tensors.make(rng.standard_normal((2, 1, heads, rank + rope)), "float8_e4m3fn")
    output = tensors.full((2, 1, heads, rank), np.nan, "bfloat16")
    given = cache[:, None] if has_second_dimension else cache
    flashinfer.xqa_mla(q, given, given, tensors.make(table),
                       tensors.make(np.array(kv_lens, np.uint32)[:, None]), output,
                       workspace(tensors), None, page, 0.5, 0.25)
    values = tensors.read(cache)
    for b, n in enumerate(kv_lens):
        keys = values[table[b]].reshape(-1, rank + rope)[:n]
        scores = tensors.read(q)[b, 0] @ keys.T * 0.5 * 0.25 / math.sqrt(192)
        weight = np.exp(scores - scores.max(axis=1, keepdims=True))
        want = weight @ keys[:, :rank] / weight.sum(axis=1, keepdims=True) * 0.25
        check_close(tensors.read(output)[b, 0], want, "bfloat16")
    wrong = [q, given, given, tensors.make(table), tensors.make(np.array(kv_lens, np.int32)),
             output, workspace(tensors), None, page]
    with pytest.raises(NotImplementedError, match="v_cache: lies elsewhere"):
        flashinfer.xqa_mla(*wrong[:2], tensors.make(pages, "float8_e4m3fn"), *wrong[3:])
    with pytest.raises(ValueError, match="output: has shape"):
        flashinfer.xqa_mla(*wrong[:5], output[:1], *wrong[6:])
    with pytest.raises(ValueError, match="page_size, 16"):
        flashinfer.xqa_mla(*wrong[:8], 16)
