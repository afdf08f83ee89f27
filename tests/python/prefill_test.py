# SPDX-License-Identifier: Apache-2.0
"""flashinfer.prefill against float64 NumPy."""
import numpy as np
import pytest
from attention_oracle import PagedBatch, attention, check_attention

import flashinfer
from flashinfer import prefill

HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 16
SIZES = (HEADS, KV_HEADS, DIM, PAGE)
Q_LENS, KV_LENS = [5, 0, 9, 1, 30], [5, 7, 40, 130, 2]


def workspace(tensors, num_bytes=8 << 20):
    return tensors.full((num_bytes,), 0, "uint8")


def starts(lens):
    return np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)


def over_requests(q, q_lens, keys, values, masks=None, **options):
    begin = starts(q_lens)
    parts = [attention(q[begin[b]:begin[b + 1]], keys[b], values[b],
                       mask=None if masks is None else masks[b], **options)
             for b in range(len(q_lens))]
    return tuple(np.concatenate(p) for p in zip(*parts))


class Paged:
    """A batch, what the wrapper makes of it, and what is right."""

    def __init__(self, tensors, rng, q_lens=Q_LENS, kv_lens=KV_LENS, *, dtype="float16",
                 kv_dtype=None, layout="NHD", dim_vo=None, page_size=PAGE):
        self.tensors, self.q_lens = tensors, q_lens
        self.dtype, self.kv_dtype = dtype, kv_dtype or dtype
        self.sizes = (HEADS, KV_HEADS, DIM, page_size)
        self.dim_vo = dim_vo
        self.batch = PagedBatch(rng, kv_lens, page_size=page_size, heads=KV_HEADS, dim=DIM,
                                dim_vo=dim_vo, layout=layout, dtype=self.kv_dtype, tensors=tensors)
        self.q = tensors.make(rng.standard_normal((sum(q_lens), HEADS, DIM)), dtype)
        self.indptr = tensors.make(starts(q_lens))
        self.wrapper = prefill.BatchPrefillWithPagedKVCacheWrapper(workspace(tensors), layout)

    def plan(self, wrapper=None, **options):
        (wrapper or self.wrapper).plan(
            self.indptr, *self.batch.tables(self.tensors), *self.sizes, self.dim_vo,
            q_data_type=self.dtype, kv_data_type=self.kv_dtype, **options)

    def check(self, wrapper=None, masks=None, run=None, **options):
        run = run or {}
        shape = (sum(self.q_lens), HEADS)
        out = self.tensors.full((*shape, self.dim_vo or DIM), np.nan, self.dtype)
        lse = self.tensors.full(shape, np.nan, "float32")
        (wrapper or self.wrapper).run(self.q, self.batch.cache, out=out, lse=lse,
                                      return_lse=True, **run)
        # Tensor cores take what was rotated rounded to 16 bits.
        limit = 1e-2 if options.get("encoding") == "ROPE_LLAMA" else 2e-3
        check_attention(self.tensors, out, lse, self.expected(masks, **options), self.dtype,
                        lse_limit=limit)
        return self.tensors.read(out)

    def expected(self, masks=None, **options):
        n = range(len(self.q_lens))
        return over_requests(self.tensors.read(self.q), self.q_lens,
                             [self.batch.keys(b) for b in n], [self.batch.values(b) for b in n],
                             masks, **options)


def random_masks(rng, q_lens=Q_LENS, kv_lens=KV_LENS):
    masks = [rng.random((m, n)) < 0.6 for m, n in zip(q_lens, kv_lens)]
    masks[2][3] = False  # a row that sees nothing
    return masks


def flat(masks):
    return np.concatenate([m.reshape(-1) for m in masks])


def packed(masks):
    return np.concatenate([np.packbits(m.reshape(-1), bitorder="little") for m in masks])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype,kv_dtype,dim_vo", [("float16", "float16", None),
                                                   ("bfloat16", "float8_e4m3fn", None),
                                                   ("float32", "float32", 32)])
def test_paged(tensors, rng, dtype, kv_dtype, dim_vo, layout, causal):
    batch = Paged(tensors, rng, dtype=dtype, kv_dtype=kv_dtype, layout=layout, dim_vo=dim_vo)
    batch.plan(causal=causal)
    written = batch.check(causal=causal)
    made = batch.wrapper.run(batch.q, batch.batch.cache)
    assert made.dtype == batch.q.dtype
    assert (tensors.read(made) == written).all()


@pytest.mark.parametrize("encoding", ["NONE", "ROPE_LLAMA", "ALIBI"])
def test_every_option_changes_the_result(tensors, rng, encoding):
    batch = Paged(tensors, rng, [5, 9, 33], [5, 40, 60])
    base = None
    changes = [{}, {"window_left": 3}, {"soft_cap": 2.0}, {"sm_scale": 0.3}, {"causal": False}]
    if encoding == "ROPE_LLAMA":
        changes += [{"rope_scale": 4.0}, {"rope_theta": 500.0}]
    for change in changes:
        options = {"causal": True, **change}
        batch.plan(pos_encoding_mode=encoding, **{
            {"soft_cap": "logits_soft_cap"}.get(name, name): value
            for name, value in options.items()})
        out = batch.check(encoding=encoding, **options)
        assert base is None or np.abs(out - base).max() > 0.02
        base = out if base is None else base


@pytest.mark.parametrize("window_left", [-1, 6])
def test_masks(tensors, rng, window_left):
    batch = Paged(tensors, rng)
    masks = random_masks(rng)
    batch.plan(custom_mask=tensors.make(flat(masks)), causal=True, window_left=window_left)
    first = batch.check(masks=masks, window_left=window_left)
    batch.plan(packed_custom_mask=tensors.make(packed(masks)), window_left=window_left)
    assert (batch.check(masks=masks, window_left=window_left) == first).all()
    batch.plan(causal=True)  # no mask is left behind
    batch.check(causal=True)
    for bad in (tensors.make(flat(masks)[:-1]), tensors.make(flat(masks).astype(np.int32))):
        with pytest.raises(ValueError, match="mask"):
            batch.plan(custom_mask=bad)
    with pytest.raises(ValueError, match="mask"):
        batch.plan(packed_custom_mask=tensors.make(flat(masks)))


def test_items(tensors, rng):
    prefix, items = 7, [3, 0, 5, 2]  # each item but the last is followed by a delimiter
    places = np.concatenate([np.arange(n + 1) for n in items])[:].astype(np.int64)
    kv_len = prefix + len(places)
    mask = np.tril(np.ones((kv_len, kv_len), bool))
    begin = prefix
    for n in items:
        mask[begin:begin + n + 1, prefix:begin] = False
        begin += n + 1
    # The first place of each item is 0: a delimiter, which sees the prefix alone besides itself.
    for b in np.flatnonzero(places == 0) + prefix:
        mask[b, prefix:b] = False
    batch = Paged(tensors, rng, [kv_len], [kv_len])
    room = len(places) + 4
    row = np.zeros(room, np.uint16)
    row[:len(places)] = places
    batch.plan(causal=True, prefix_len_ptr=tensors.make(np.array(prefix, np.uint32)),
               token_pos_in_items_ptr=tensors.make(row[:-2]), token_pos_in_items_len=tensors.make(np.array(room, np.uint32)),
               max_item_len_ptr=tensors.make(np.array([max(items)], np.uint16)))
    out = tensors.read(batch.wrapper.run(batch.q, batch.batch.cache))
    o, _ = batch.expected()
    for i in range(kv_len):
        if i < prefix:
            seen = np.arange(kv_len) <= i
        else:
            place = places[i - prefix]
            j = np.arange(kv_len)
            seen = (j <= i) & ((j < prefix) | (i < j + place))
        want, _ = attention(tensors.read(batch.q)[i:i + 1], batch.batch.keys(0)[seen],
                            batch.batch.values(0)[seen])
        assert np.abs(out[i] - want[0]).max() < 3e-3
    with pytest.raises(ValueError, match="token_pos_in_items"):
        batch.plan(prefix_len_ptr=tensors.make(np.array([prefix], np.uint32)))


def test_scales_and_sinks(tensors, rng):
    batch = Paged(tensors, rng, kv_dtype="float8_e5m2")
    batch.plan(causal=True)
    q, (keys, values) = tensors.read(batch.q), zip(*[
        (batch.batch.keys(b), batch.batch.values(b)) for b in range(len(Q_LENS))])
    q_s, k_s, v_s = (rng.uniform(0.5, 2, n) for n in (HEADS, KV_HEADS, KV_HEADS))
    sinks = rng.standard_normal(HEADS)
    want = over_requests(q * q_s[:, None], Q_LENS, [k * k_s[:, None] for k in keys],
                         [v * v_s[:, None] for v in values], causal=True)
    per_head = [tensors.make(s, "float32") for s in (q_s, k_s, v_s)]
    got = batch.wrapper.run(batch.q, batch.batch.cache, *per_head, return_lse=True)
    check_attention(tensors, *got, want, "bfloat16")
    got = batch.wrapper.run(batch.q, batch.batch.cache, q_scale=per_head[0], k_scale=per_head[1],
                            v_scale=per_head[2], return_lse=True)
    check_attention(tensors, *got, want, "bfloat16")
    want = over_requests(q * 0.5, Q_LENS, [k * 0.25 for k in keys], [v * 2 for v in values],
                         causal=True, sinks=sinks)
    got = batch.wrapper.run(batch.q, batch.batch.cache, q_scale=0.5, k_scale=0.25,
                            v_scale=tensors.make([2.0], "float32"), return_lse=True,
                            sinks=tensors.make(sinks, "float32"))
    check_attention(tensors, *got, want, "bfloat16")


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ragged(tensors, rng, dtype, causal, layout):
    dim_vo = 32
    q = tensors.make(rng.standard_normal((sum(Q_LENS), HEADS, DIM)), dtype)
    k, v = (tensors.make(rng.standard_normal((sum(KV_LENS) + 3, KV_HEADS, d)), dtype)
            for d in (DIM, dim_vo))
    given = [t.swapaxes(0, 1) for t in (k, v)] if layout == "HND" else [k, v]
    wrapper = prefill.BatchPrefillWithRaggedKVCacheWrapper(workspace(tensors), layout)
    wrapper.plan(tensors.make(starts(Q_LENS)), tensors.make(starts(KV_LENS)), HEADS, KV_HEADS, DIM,
                 dim_vo, causal=causal, q_data_type=dtype,
                 seq_lens=tensors.make(np.array(KV_LENS, np.int32)), max_sequence_kv=max(KV_LENS),
                 seq_lens_q=tensors.make(np.array(Q_LENS, np.int32)),
                 max_token_per_sequence=max(Q_LENS))
    rows = starts(KV_LENS)
    keys, values = ([tensors.read(t)[rows[b]:rows[b + 1]] for b in range(len(KV_LENS))]
                    for t in (k, v))
    want = over_requests(tensors.read(q), Q_LENS, keys, values, causal=causal)
    check_attention(tensors, *wrapper.run_return_lse(q, *given), want, dtype)
    check_attention(tensors, wrapper.forward(q, *given, causal=not causal), None,
                    over_requests(tensors.read(q), Q_LENS, keys, values, causal=not causal), dtype)
    masks = random_masks(rng)
    wrapper.plan(tensors.make(starts(Q_LENS)), tensors.make(starts(KV_LENS)), HEADS, KV_HEADS, DIM,
                 dim_vo, custom_mask=tensors.make(flat(masks)), q_data_type=dtype)
    check_attention(tensors, *wrapper.run(q, *given, return_lse=True),
                    over_requests(tensors.read(q), Q_LENS, keys, values, masks), dtype)
    for options in ({"seq_lens": tensors.make(np.array(Q_LENS, np.int32))},
                    {"max_token_per_sequence": 3}, {"max_sequence_kv": 100}):
        with pytest.raises(ValueError, match=next(iter(options))):
            wrapper.plan(tensors.make(starts(Q_LENS)), tensors.make(starts(KV_LENS)), HEADS,
                         KV_HEADS, DIM, dim_vo, **options)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("q_len,kv_len", [(13, 77), (4, 2), (1, 1), (3, 0)])
def test_single(tensors, rng, q_len, kv_len, layout):
    q = tensors.make(rng.standard_normal((q_len, HEADS, DIM)), "float16")
    k, v = (tensors.make(rng.standard_normal((kv_len, KV_HEADS, DIM)), "float16")
            for _ in range(2))
    given = [t.swapaxes(0, 1) for t in (k, v)] if layout == "HND" else [k, v]
    arrays = [tensors.read(t) for t in (q, k, v)]
    for causal in (False, True):
        got = flashinfer.single_prefill_with_kv_cache_return_lse(q, *given, causal=causal,
                                                                 kv_layout=layout)
        check_attention(tensors, *got, attention(*arrays, causal=causal), "float16")
    mask = rng.random((q_len, kv_len)) < 0.5
    want = attention(*arrays, mask=mask, window_left=5, soft_cap=4.0, sm_scale=0.2)
    options = {"kv_layout": layout, "return_lse": True, "window_left": 5, "logits_soft_cap": 4.0,
               "sm_scale": 0.2}
    got = prefill.single_prefill_with_kv_cache(q, *given, custom_mask=tensors.make(mask),
                                               **options)
    check_attention(tensors, *got, want, "float16")
    bits = np.packbits(mask.reshape(-1), bitorder="little")
    got = prefill.single_prefill_with_kv_cache(q, *given, packed_custom_mask=tensors.make(bits),
                                               **options)
    check_attention(tensors, *got, want, "float16")
    with pytest.raises(ValueError, match="mask"):
        prefill.single_prefill_with_kv_cache(
            q, *given, kv_layout=layout,
            custom_mask=tensors.make(np.ones((q_len, kv_len + 1), bool)))


def test_single_scales(tensors, rng):
    q, k, v = (tensors.make(rng.standard_normal((n, h, DIM)), "float8_e4m3fn")
               for n, h in ((6, HEADS), (20, KV_HEADS), (20, KV_HEADS)))
    scales = [rng.uniform(0.5, 2, h) for h in (HEADS, KV_HEADS, KV_HEADS)]
    out = prefill.single_prefill_with_kv_cache(
        q, k, v, *[tensors.make(s, "float32") for s in scales], o_dtype=tensors.dtype("bfloat16"),
        k_scale=0.5)
    assert out.dtype == tensors.dtype("bfloat16")
    q64, k64, v64 = (tensors.read(t) * s[:, None] for t, s in zip((q, k, v), scales))
    check_attention(tensors, out, None, attention(q64, 0.5 * k64, v64), "bfloat16")


def test_older_interface(tensors, rng):
    batch = Paged(tensors, rng)
    batch.wrapper.begin_forward(batch.indptr, *batch.batch.tables(tensors), *SIZES)
    for causal, window in ((True, -1), (False, 4), (True, 4)):
        got = batch.wrapper.forward_return_lse(batch.q, batch.batch.cache, causal=causal,
                                               window_left=window)
        check_attention(tensors, *got, batch.expected(causal=causal, window_left=window),
                        "float16")
        assert (tensors.read(batch.wrapper.forward(batch.q, batch.batch.cache, causal=causal,
                                                   window_left=window))
                == tensors.read(got[0])).all()
    batch.wrapper.end_forward()


def test_graph_buffers(tensors, rng):
    names = ("qo_indptr_buf", "paged_kv_indptr_buf", "paged_kv_indices_buf",
             "paged_kv_last_page_len_buf", "mask_indptr_buf")
    buffers = {name: tensors.full((size,), -1, "int32")
               for name, size in zip(names, (4, 4, 64, 3, 4))}
    buffers["custom_mask_buf"] = tensors.full((4096,), 255, "uint8")
    wrapper = prefill.BatchPrefillWithPagedKVCacheWrapper(workspace(tensors), use_cuda_graph=True,
                                                          **buffers)
    for q_lens, kv_lens in (([9, 8, 7], [50, 21, 100]), ([1, 9, 4], [7, 130, 17])):
        batch = Paged(tensors, rng, q_lens, kv_lens)
        batch.plan(wrapper, causal=True)
        assert (tensors.read(buffers["qo_indptr_buf"]) == starts(q_lens)).all()
        batch.check(wrapper, causal=True)
        masks = random_masks(rng, q_lens, kv_lens)
        for mask in ({"custom_mask": tensors.make(flat(masks))},
                     {"packed_custom_mask": tensors.make(packed(masks))}):
            buffers["custom_mask_buf"][...] = 255
            batch.plan(wrapper, **mask)
            bits = packed(masks)
            assert (tensors.read(buffers["custom_mask_buf"])[:len(bits)] == bits).all()
            assert tensors.read(buffers["mask_indptr_buf"])[-1] == len(bits)
            batch.check(wrapper, masks=masks)
    with pytest.raises(ValueError, match="qo_indptr"):
        Paged(tensors, rng, [9, 9, 9], [9, 9, 9]).plan(wrapper)
    with pytest.raises(ValueError, match="qo_indptr"):
        Paged(tensors, rng, [9, 9], [9, 9]).plan(wrapper)
    del buffers["paged_kv_indices_buf"]
    with pytest.raises(ValueError, match="paged_kv_indices_buf"):
        prefill.BatchPrefillWithPagedKVCacheWrapper(workspace(tensors), use_cuda_graph=True,
                                                    **buffers)


def test_engines_read_the_plan(tensors, rng):
    batch = Paged(tensors, rng)
    for causal, window, cap, scale in ((True, 5, 2.0, 0.25), (False, -1, None, None)):
        batch.plan(causal=causal, window_left=window, logits_soft_cap=cap, sm_scale=scale)
        wrapper = batch.wrapper
        assert (wrapper._causal, wrapper._window_left, wrapper._logits_soft_cap,
                wrapper._sm_scale) == (causal, window, cap or 0.0, scale)


def test_workspace(tensors, rng):
    batch = Paged(tensors, rng, [3, 2], [600, 20])
    size, none = batch.wrapper.workspace_size(batch.indptr, *batch.batch.tables(tensors), *SIZES)
    assert size > 0 and none == 0
    exact = prefill.BatchPrefillWithPagedKVCacheWrapper(workspace(tensors, size))
    batch.plan(exact, causal=True)
    batch.check(exact, causal=True)
    for options in ({"fixed_split_size": 8}, {"disable_split_kv": True}):
        batch.plan(**options)
        batch.check()


def test_errors_name_the_argument(tensors, rng):
    batch = Paged(tensors, rng)
    with pytest.raises(ValueError, match="before a successful plan"):
        batch.wrapper.run(batch.q, batch.batch.cache)
    tables = batch.batch.tables(tensors)
    with pytest.raises(ValueError, match="qo_indptr"):
        batch.wrapper.plan(tensors.make(starts(Q_LENS[:-1])), *tables, *SIZES)
    with pytest.raises(ValueError, match="seq_lens_q"):
        batch.plan(seq_lens_q=tensors.make(np.array(KV_LENS, np.int32)))
    batch.plan(causal=True, window_left=2)
    for match, call in (
            ("q", lambda: batch.wrapper.run(batch.q[:-1], batch.batch.cache)),
            ("window_left", lambda: batch.wrapper.run(batch.q, batch.batch.cache, window_left=1)),
            ("cache", lambda: batch.wrapper.run(batch.q, batch.batch.cache[:, :, :8])),
            *([("indices", lambda: batch.wrapper.run(batch.q, batch.batch.cache[:1]))]
              if tensors.name != "cuda" else []),  # where they cannot be read
            ("q_scales", lambda: batch.wrapper.run(
                batch.q, batch.batch.cache, tensors.full((HEADS + 1,), 1, "float32")))):
        with pytest.raises(ValueError, match=match):
            call()
    for name in ("kv_cache_sf", "skip_softmax_threshold_scale_factor", "use_fp16_softmax",
                 "uses_spcompress"):
        with pytest.raises(NotImplementedError, match=name):
            batch.wrapper.run(batch.q, batch.batch.cache, **{name: 1.0})
    for name in ("v_indptr", "o_indptr"):
        with pytest.raises(NotImplementedError, match=name):
            prefill.BatchPrefillWithRaggedKVCacheWrapper(workspace(tensors)).plan(
                batch.indptr, batch.indptr, HEADS, KV_HEADS, DIM, **{name: batch.indptr})
    with pytest.raises(NotImplementedError, match="cudnn"):
        prefill.BatchPrefillWithRaggedKVCacheWrapper(workspace(tensors), backend="cudnn")
    with pytest.raises(TypeError, match="dtype_kv"):
        prefill.BatchPrefillWithPagedKVCacheWrapper(workspace(tensors), jit_args=["x", "y"])
    with pytest.raises(NotImplementedError, match="kv_data_type"):
        batch.wrapper.plan(batch.indptr, *tables, *SIZES, kv_data_type="uint8")
    batch.plan(causal=True, window_left=2)
    batch.check(causal=True, window_left=2)


@pytest.mark.parametrize("use_cuda_graph", [False, True])
def test_tables_of_cudnn(tensors, rng, use_cuda_graph):
    """Where requests begin is in elements of q, and pages are [heads, tokens, head_dim]."""
    batch = Paged(tensors, rng, [5, 1, 9], [5, 40, 130], layout="HND")
    buffers = {name: tensors.full((size,), 0, "int32") for name, size in (
        ("qo_indptr_buf", 4), ("paged_kv_indptr_buf", 4), ("paged_kv_indices_buf", 20),
        ("paged_kv_last_page_len_buf", 3))} if use_cuda_graph else {}
    wrapper = prefill.BatchPrefillWithPagedKVCacheWrapper(
        workspace(tensors), use_cuda_graph=use_cuda_graph, backend="cudnn", **buffers)
    lens = {"seq_lens": tensors.make(np.array([5, 40, 130], np.int32).reshape(3, 1, 1, 1)),
            "seq_lens_q": tensors.make(np.array([5, 1, 9], np.int32).reshape(3, 1, 1, 1))}
    rows, elements = batch.indptr, tensors.make(starts([5, 1, 9]) * HEADS * DIM)
    batch.indptr = elements
    batch.plan(wrapper, causal=True, **lens)
    batch.check(wrapper, causal=True)
    if use_cuda_graph:
        assert (tensors.read(buffers["qo_indptr_buf"]) == starts([5, 1, 9])).all()
    with pytest.raises(ValueError, match="seq_lens"):
        batch.plan(wrapper)
    batch.indptr = rows
    with pytest.raises(ValueError, match="multiples of 256"):
        batch.plan(wrapper, **lens)
