# SPDX-License-Identifier: Apache-2.0
"""fmha_varlen and the prefills of requests of one length against float64 NumPy."""
import math

import numpy as np
import pytest
from attention_oracle import attention, check_attention
from fused_prefill_test import HEADS, KV_HEADS, KV_LENS, Q_LENS, expected, starts

from flashinfer import prefill


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn"])
def test_varlen(tensors, rng, causal, dtype):
    q, k, v = (tensors.make(rng.standard_normal(s), dtype) for s in (
        (36, HEADS, 96), (120, KV_HEADS, 96), (120, KV_HEADS, 64)))
    offsets = [tensors.make(starts(lens)) for lens in (Q_LENS, KV_LENS)]
    module = prefill.get_fmha_module(q.dtype, k.dtype, q.dtype, offsets[0].dtype, 96, 64, 0, False,
                                     False, None)
    plan = prefill.fmha_varlen_plan(module, *offsets, HEADS, causal)
    got = prefill.fmha_varlen(q, k, v, *offsets, plan, 30, causal=causal, return_lse=True)
    kind = "float16" if dtype == "float16" else "bfloat16"
    assert got[0].dtype == tensors.dtype(kind)
    arrays = [tensors.read(t) for t in (q, k, v)]
    check_attention(tensors, *got, expected(*arrays, causal=causal), kind)
    out = tensors.full((36, HEADS, 64), np.nan, kind)
    got = prefill.fmha_varlen(q, k, v, *offsets, out=out, causal=causal, sm_scale=0.1,
                              q_scale=2.0, k_scale=0.5, v_scale=3.0, o_scale=0.25)
    assert got[0] is out and got[1] is None
    check_attention(tensors, out, None, expected(*arrays[:2], 0.75 * arrays[2], causal=causal,
                                                 sm_scale=0.1), kind)
    with pytest.raises(ValueError, match="max_qo_len: is 29"):
        prefill.fmha_varlen(q, k, v, *offsets, max_qo_len=29)


@pytest.mark.parametrize("name, causal", [("deepseek", True), ("sm120", True), ("sm120", False)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_requests_of_one_length(tensors, rng, name, causal, dtype):
    batch, length, dim, dim_vo = 2, 37, 192, 128
    q, k, v = (tensors.make(rng.standard_normal((batch, length, HEADS, d)), dtype)
               for d in (dim, dim, dim_vo))
    out = tensors.full((batch, length, HEADS, dim_vo), np.nan, "bfloat16")
    lse = tensors.full((batch, length, HEADS, 2), np.nan, "float32")
    function = getattr(prefill, f"fmha_v2_prefill_{name}")
    mode = {} if name == "deepseek" else {"causal": causal}
    scales = [tensors.make(np.full(1, s), "float32") for s in (0.1, 0.5)]
    sizes = (HEADS, dim, length)
    found = function(q, k, v, out, *sizes, scale_softmax=1.0, scale_bmm1=9.0, scale_bmm1_d=scales[0],
                     scale_bmm2_d=scales[1], return_lse=True, lse=lse, **mode)
    assert found[0] is out and found[1] is lse
    m, s = np.moveaxis(tensors.read(lse), -1, 0)
    logs = m + np.log(s / (256 if dtype == "float8_e4m3fn" else 1))
    for b in range(batch):
        arrays = [tensors.read(t)[b] for t in (q, k, v)]
        reference = attention(*arrays[:2], arrays[2] / 2, causal=causal, sm_scale=0.1)
        check_attention(tensors, out[b], None, reference, "bfloat16")
        np.testing.assert_allclose(logs[b], reference[1] * math.log(2), rtol=1e-3, atol=1e-3)
    again = tensors.full(tuple(out.shape), np.nan, "bfloat16")
    assert function(q, k, v, again, *sizes, 0.0, 0.1, 0.5, **mode) is again
    np.testing.assert_array_equal(tensors.read(again), tensors.read(out))


def test_what_shapes_must_be(rng):
    q = rng.standard_normal((2, 8, 4, 16)).astype(np.float32)
    call = prefill.fmha_v2_prefill_sm120
    for words, wrong in (("query: shape is", (q, q, q, q, 3, 16, 8)),
                         ("key: shape is", (q, q[:1], q, q, 4, 16, 8)),
                         ("out: its rows are not evenly spaced",
                          (q, q, q, np.zeros((2, 9, 4, 16), np.float32)[:, :8], 4, 16, 8))):
        with pytest.raises(ValueError, match=words):
            call(*wrong, 1.0)
    with pytest.raises(ValueError, match="lse: is float64 of shape"):
        call(q, q, q, q.copy(), 4, 16, 8, 1.0, return_lse=True, lse=np.zeros((2, 8, 4, 2)))


def test_memory_of_another_call_is_left_alone(tensors, rng):
    q, k, v = (tensors.make(rng.standard_normal((n, h, 64)), "float16")
               for n, h in ((36, HEADS), (120, KV_HEADS), (120, KV_HEADS)))
    offsets = [tensors.make(starts(lens)) for lens in (Q_LENS, KV_LENS)]
    memory = tensors.full((8 << 20,), 0, "uint8")
    prefill.trtllm_ragged_attention_deepseek(
        q, k, v, memory, tensors.make(np.array(KV_LENS, np.int32)), max(Q_LENS), max(KV_LENS), 0.1,
        1.0, 1.0, 3, -1, *offsets, False, True, False)
    memory[...] = 77  # its owner's again
    prefill.fmha_varlen(q, k, v, *offsets)
    assert (tensors.read(memory) == 77).all()
