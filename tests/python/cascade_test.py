# SPDX-License-Identifier: Apache-2.0
"""flashinfer.cascade against float64 NumPy."""
import numpy as np
import pytest
from attention_oracle import TOLERANCE, PagedBatch, attention, check_attention, softmax_sum

import flashinfer
import flashinfer.triton.cascade as variable
from flashinfer import cascade

HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 8


def workspace(tensors):
    return tensors.full((8 << 20,), 0, "uint8")


def merged(values, logs):
    """States [n, heads, dim], [n, heads] of one token merged."""
    out = np.zeros(values.shape[1:])
    log = np.full(values.shape[1], -np.inf)
    for h in range(values.shape[1]):
        there = np.isfinite(logs[:, h])
        out[h], log[h] = softmax_sum(logs[there, h] * np.log(2), values[there, h])
    return out, log


def states(tensors, rng, shape, dtype):
    v = rng.standard_normal((*shape, HEADS, DIM))
    s = rng.standard_normal((*shape, HEADS)) * 3
    s[0, ..., 1] = -np.inf
    return tensors.make(v, dtype), tensors.make(s, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_two_states(tensors, rng, dtype):
    (v_a, s_a), (v_b, s_b) = (states(tensors, rng, (9,), dtype) for _ in range(2))
    want = [merged(np.stack([tensors.read(v_a)[t], tensors.read(v_b)[t]]),
                   np.stack([tensors.read(s_a)[t], tensors.read(s_b)[t]])) for t in range(9)]
    v, s = (np.stack(x) for x in zip(*want))
    got = flashinfer.merge_state(v_a, s_a, v_b, s_b)
    assert got[0].dtype == v_a.dtype
    check_attention(tensors, *got, (v, s), dtype)
    mask = rng.random(9) < 0.5
    before = tensors.read(v_a).copy(), tensors.read(s_a).copy()
    cascade.merge_state_in_place(v_a, s_a, v_b, s_b, tensors.make(mask))
    check_attention(tensors, v_a, s_a, (np.where(mask[:, None, None], v, before[0]),
                                        np.where(mask[:, None], s, before[1])), dtype)
    assert cascade.merge_state.is_compute_capability_supported(90)
    with pytest.raises(ValueError, match="s_b"):
        cascade.merge_state(v_a, s_a, v_b, s_b[:-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("num_states", [0, 1, 5])
def test_many_states(tensors, rng, dtype, num_states):
    v, s = states(tensors, rng, (6, num_states), dtype)
    want = [merged(tensors.read(v)[t], tensors.read(s)[t]) for t in range(6)]
    got = cascade.merge_states(v, s)
    check_attention(tensors, *got, tuple(np.stack(x) for x in zip(*want)), dtype)


def test_as_many_states_as_each_token_has(tensors, rng):
    v, s = states(tensors, rng, (7,), "float16")
    indptr = np.array([0, 3, 3, 4, 7], np.int32)
    got = variable.variable_length_merge_states(v, s, tensors.make(indptr))
    want = [merged(tensors.read(v)[b:e], tensors.read(s)[b:e])
            for b, e in zip(indptr, indptr[1:])]
    check_attention(tensors, *got, tuple(np.stack(x) for x in zip(*want)), "float16")


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("use_cuda_graph", [False, True])
def test_levels(tensors, rng, use_cuda_graph, causal, layout):
    q_lens = [3, 1, 4]
    pool = PagedBatch(rng, [40, 11, 9, 30, 21], page_size=PAGE, heads=KV_HEADS, dim=DIM,
                      layout=layout, dtype="float16", tensors=tensors)
    # Groups of a level: runs of requests, and the pool's "request" that holds their keys.
    levels = [([3], [0]), ([2, 1], [1, 2]), ([1, 1, 1], [2, 3, 4])]
    begin = np.concatenate([[0], np.cumsum(q_lens)])
    qo_indptr, tables = [], []
    for groups, owners in levels:
        ends = np.cumsum(groups)
        qo_indptr.append(np.concatenate([[0], begin[ends]]).astype(np.int32))
        pages = [pool.indices[pool.indptr[o]:pool.indptr[o + 1]] for o in owners]
        tables.append((np.concatenate([[0], np.cumsum([len(p) for p in pages])]).astype(np.int32),
                       np.concatenate(pages), pool.last_page_len[owners]))
    lists = [[tensors.make(t) for t in qo_indptr],
             *[[tensors.make(t[i]) for t in tables] for i in range(3)]]
    buffers = {}
    if use_cuda_graph:
        names = ("qo_indptr_buf_arr", "paged_kv_indptr_buf_arr", "paged_kv_indices_buf_arr",
                 "paged_kv_last_page_len_buf_arr")
        buffers = {name: [tensors.full((len(t) + (4 if "indices" in name else 0),), -1, "int32")
                          for t in given] for name, given in zip(names, lists)}
    wrapper = cascade.MultiLevelCascadeAttentionWrapper(3, workspace(tensors), layout,
                                                        use_cuda_graph, **buffers)
    q = tensors.make(rng.standard_normal((8, HEADS, DIM)), "float16")
    with pytest.raises(ValueError, match="before a successful plan"):
        wrapper.run(q, pool.cache)
    wrapper.plan(*lists, HEADS, KV_HEADS, DIM, PAGE, causal=causal, sm_scale=0.2)
    if use_cuda_graph:
        assert (tensors.read(buffers["qo_indptr_buf_arr"][1]) == qo_indptr[1]).all()
    want = []
    for r, q_len in enumerate(q_lens):
        owners = [0, 1 if r < 2 else 2, r + 2]
        keys, values = (np.concatenate([f(o) for o in owners]) for f in (pool.keys, pool.values))
        want.append(attention(tensors.read(q)[begin[r]:begin[r + 1]], keys, values, causal=causal,
                              sm_scale=0.2)[0])
    out = wrapper.run(q, pool.cache)
    assert np.abs(tensors.read(out) - np.concatenate(want)).max() < TOLERANCE["float16"]
    with pytest.raises(ValueError, match="window_left"):
        wrapper.plan(*lists, HEADS, KV_HEADS, DIM, PAGE, window_left=3)
    with pytest.raises(ValueError, match="levels"):
        wrapper.plan(lists[0][:2], *lists[1:], HEADS, KV_HEADS, DIM, PAGE)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_shared_prefix(tensors, rng, layout):
    unique = PagedBatch(rng, [5, 20, 9], page_size=PAGE, heads=KV_HEADS, dim=DIM, layout=layout,
                        dtype="float16", tensors=tensors)
    prefix = [tensors.make(rng.standard_normal((33, KV_HEADS, DIM)), "float16") for _ in range(2)]
    shared = [t.swapaxes(0, 1) for t in prefix] if layout == "HND" else prefix

    def expected(q, q_lens, causal):
        begin = np.concatenate([[0], np.cumsum(q_lens)])
        return np.concatenate([
            attention(tensors.read(q)[begin[b]:begin[b + 1]],
                      np.concatenate([tensors.read(prefix[0]), unique.keys(b)]),
                      np.concatenate([tensors.read(prefix[1]), unique.values(b)]),
                      causal=causal)[0] for b in range(3)])

    q = tensors.make(rng.standard_normal((3, HEADS, DIM)), "float16")
    decode = cascade.BatchDecodeWithSharedPrefixPagedKVCacheWrapper(workspace(tensors), layout)
    decode.begin_forward(*unique.tables(tensors), HEADS, KV_HEADS, DIM, PAGE)
    out = decode.forward(q, *shared, unique.cache)
    assert np.abs(tensors.read(out) - expected(q, [1, 1, 1], False)).max() < 4e-3
    decode.end_forward()

    q_lens = [5, 2, 4]
    q = tensors.make(rng.standard_normal((11, HEADS, DIM)), "float16")
    prefill = cascade.BatchPrefillWithSharedPrefixPagedKVCacheWrapper(workspace(tensors), layout)
    with pytest.raises(ValueError, match="begin_forward"):
        prefill.forward(q, *shared, unique.cache)
    prefill.begin_forward(tensors.make(np.array([0, 5, 7, 11], np.int32)),
                          *unique.tables(tensors), HEADS, KV_HEADS, DIM, PAGE)
    for causal in (True, False):
        out = prefill.forward(q, *shared, unique.cache, causal=causal)
        assert np.abs(tensors.read(out) - expected(q, q_lens, causal)).max() < 4e-3
    prefill.end_forward()
