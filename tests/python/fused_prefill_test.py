# SPDX-License-Identifier: Apache-2.0
"""trtllm_ragged_attention_deepseek and trtllm_fmha_v2_prefill against float64 NumPy."""
import numpy as np
import pytest
from attention_oracle import PagedBatch, attention, check_attention

from flashinfer import prefill

HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 16
Q_LENS, KV_LENS = [5, 1, 30], [20, 70, 30]


def workspace(tensors):
    return tensors.full((8 << 20,), 0, "uint8")


def starts(lens):
    return np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)


def expected(q, k, v, masks=None, q_lens=Q_LENS, kv_lens=KV_LENS, **options):
    a, b = starts(q_lens), starts(kv_lens)
    parts = [attention(q[a[i]:a[i + 1]], k[b[i]:b[i + 1]], v[b[i]:b[i + 1]],
                       mask=None if masks is None else masks[i], **options)
             for i in range(len(q_lens))]
    return tuple(map(np.concatenate, zip(*parts)))


@pytest.mark.parametrize("causal", [False, True])
def test_ragged(tensors, rng, causal):
    q, k, v = (tensors.make(rng.standard_normal((n, h, d)), "bfloat16") for n, h, d in (
        (36, HEADS, 96), (120, HEADS, 96), (120, HEADS, 64)))
    sinks = rng.standard_normal(HEADS)
    given = [q, k, v, workspace(tensors), tensors.make(np.array(KV_LENS, np.int32)), 30, 70, 0.2,
             2.0, -1.0, 3, 50, tensors.make(starts(Q_LENS)), tensors.make(starts(KV_LENS)), False,
             causal, True]
    out = tensors.full((36, HEADS, 64), np.nan, "bfloat16")
    got = prefill.trtllm_ragged_attention_deepseek(
        *given, attention_sinks=tensors.make(sinks, "float32"), out=out)
    assert got[0] is out
    arrays = [tensors.read(t) for t in (q, k, v)]
    check_attention(tensors, *got, expected(*arrays[:2], 2 * arrays[2], causal=causal,
                                            window_left=50, sinks=sinks, sm_scale=0.2),
                    "bfloat16")
    with pytest.raises(ValueError, match="max_kv_len"):
        prefill.trtllm_ragged_attention_deepseek(*given[:6], 69, *given[7:])
    with pytest.raises(NotImplementedError, match="sage_attn_sfs"):
        prefill.trtllm_ragged_attention_deepseek(*given, sage_attn_sfs=(q, None, None, None))


@pytest.mark.parametrize("mask_mode", ["causal", "sliding_window", "chunked", "padding"])
@pytest.mark.parametrize("input_layout", ["PACKED_QKV", "CONTIGUOUS_Q_KV", "SEPARATE_Q_K_V",
                                          "Q_PAGED_KV_HND", "Q_PAGED_KV_NHD"])
def test_layouts(tensors, rng, input_layout, mask_mode):
    q_lens, table = Q_LENS, None
    if input_layout == "PACKED_QKV":
        q_lens = KV_LENS
        qkv = tensors.make(rng.standard_normal((120, 3, HEADS, DIM)), "float16")
        q, k, v = (tensors.read(qkv)[:, i] for i in range(3))
    else:
        query = tensors.make(rng.standard_normal((36, HEADS, DIM)), "float16")
        q = tensors.read(query)
    if input_layout.startswith("Q_PAGED"):
        pages = PagedBatch(rng, KV_LENS, page_size=PAGE, heads=KV_HEADS, dim=DIM,
                           layout=input_layout[-3:], dtype="float16", tensors=tensors)
        table = np.full((3, 6), 10**6, np.int32)
        for b in range(3):
            ids = pages.indices[pages.indptr[b]:pages.indptr[b + 1]]
            table[b, :len(ids)] = ids
        table = tensors.make(table)
        qkv = (query, pages.cache)
        k, v = (np.concatenate([f(b) for b in range(3)]) for f in (pages.keys, pages.values))
    elif input_layout != "PACKED_QKV":
        kv = tensors.make(rng.standard_normal((120, 2, KV_HEADS, DIM)), "float16")
        k, v = (tensors.read(kv)[:, i] for i in range(2))
        qkv = (query, kv) if input_layout == "CONTIGUOUS_Q_KV" else (query, kv[:, 0], kv[:, 1])
    options, masks = {"causal": mask_mode != "padding"}, None
    if mask_mode == "sliding_window":
        options["window_left"] = 9
    if mask_mode == "chunked":
        masks = []
        for m, n in zip(q_lens, KV_LENS):
            p, j = n - m + np.arange(m)[:, None], np.arange(n)
            masks.append((j <= p) & (j // 8 == p // 8))
    out, pairs = prefill.trtllm_fmha_v2_prefill(
        qkv, input_layout, workspace(tensors), tensors.make(np.array(KV_LENS, np.int32)),
        max(q_lens), 70, 0.2, 2.0, 3, tensors.make(starts(q_lens)), tensors.make(starts(KV_LENS)),
        table, mask_mode=mask_mode, window_left=9, chunked_attention_size=8,
        logits_soft_cap_scale=3.0, save_softmax_stats=True)
    m, s = np.moveaxis(tensors.read(pairs), -1, 0)  # of base e, after a soft cap m / sqrt(DIM)
    lse = tensors.make((m * np.sqrt(DIM) + np.log(s)) / np.log(2), "float32")
    check_attention(tensors, out, lse, expected(q, k, 2 * v, masks, q_lens, soft_cap=3.0,
                                                sm_scale=0.2, **options), "float16")


def test_alibi_and_errors(tensors, rng):
    q, k, v = (tensors.make(rng.standard_normal((n, HEADS, DIM)), "float16")
               for n in (36, 120, 120))
    given = [(q, k, v), "SEPARATE_Q_K_V", workspace(tensors),
             tensors.make(np.array(KV_LENS, np.int32)), 30, 70, 0.2, 1.0, 3,
             tensors.make(starts(Q_LENS)), tensors.make(starts(KV_LENS))]
    run = prefill.trtllm_fmha_v2_prefill
    out, pairs = run(*given, pos_encoding_mode="alibi", save_softmax_stats=True)
    m, s = np.moveaxis(tensors.read(pairs), -1, 0)
    lse = tensors.make((m * 0.2 * np.sqrt(DIM) + np.log(s)) / np.log(2), "float32")
    check_attention(tensors, out, lse, expected(
        *[tensors.read(t) for t in (q, k, v)], causal=True, encoding="ALIBI", sm_scale=0.2),
        "float16")
    for match, options in (("mask_mode", {"mask_mode": "none"}),
                           ("pos_encoding_mode", {"pos_encoding_mode": "rope"}),
                           ("chunked_attention_size", {"mask_mode": "chunked"})):
        with pytest.raises(ValueError, match=match):
            run(*given, **options)
    with pytest.raises(ValueError, match="input_layout"):
        run(given[0], "QKV", *given[2:])
    with pytest.raises(NotImplementedError, match="skip_softmax_threshold"):
        run(*given, skip_softmax_threshold_scale_factor=1)
