# SPDX-License-Identifier: Apache-2.0
"""A call of the package for every torch op, for the tests of torch.compile and of the ops."""
import torch

import flashinfer
from flashinfer import activation, gemm, grouped_mm, norm, page, quantization, rope, sampling, topk
from flashinfer._binding import lib
from flashinfer.logits_processor import (
    LogitsPipe,
    MinP,
    Sample,
    Softmax,
    Temperature,
    TopK,
    TopP,
)
from flashinfer.triton.cascade import variable_length_merge_states

ROWS, VOCAB = 4, 64
CALLS = {}  # name of an op -> [(function, what makes its arguments), ...]


def numbers(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def integers(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def chances(*shape):
    return torch.softmax(torch.randn(*shape), -1)


def call(name, function, make):
    CALLS.setdefault(name, []).append((function, make))


def add_norms():
    def rows():
        return numbers(3, 64), numbers(64)

    def fp8():
        return torch.empty(3, 64, dtype=torch.float8_e4m3fn)

    call("rmsnorm", norm.rmsnorm, rows)
    call("rmsnorm", norm.rmsnorm, lambda: (*rows(), 1e-5, numbers(3, 64)))
    call("gemma_rmsnorm", norm.gemma_rmsnorm, rows)
    call("layernorm", norm.layernorm, lambda: (*rows(), numbers(64)))
    call("rmsnorm_quant", norm.rmsnorm_quant, lambda: (fp8(), *rows(), 0.5))
    call("rmsnorm_quant", norm.rmsnorm_quant, lambda: (fp8(), *rows(), torch.ones(1)))
    call("layernorm_quant", norm.layernorm_quant, lambda: (fp8(), *rows(), numbers(64), 0.5))
    for name in ("fused_add_rmsnorm", "gemma_fused_add_rmsnorm"):
        call(name, getattr(norm, name), lambda: (numbers(3, 64), *rows()))
    call("fused_add_rmsnorm_quant", norm.fused_add_rmsnorm_quant,
         lambda: (fp8(), numbers(3, 64), *rows(), 0.5))


def add_activations():
    for name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"):
        call(name, getattr(activation, name), lambda: (numbers(3, 64),))


def add_rope():
    def heads():
        return numbers(5, 4, 32), numbers(5, 2, 32)

    def requests():
        return integers(0, 2, 5), integers(3, 0)

    call("apply_rope", rope.apply_rope_pos_ids, lambda: (*heads(), integers(4, 3, 2, 1, 0)))
    call("apply_rope", rope.apply_rope_pos_ids_inplace,
         lambda: (*heads(), integers(4, 3, 2, 1, 0)))
    call("apply_rope_by_offsets", rope.apply_rope, lambda: (*heads(), *requests()))
    call("apply_rope_by_offsets", rope.apply_rope_inplace, lambda: (*heads(), *requests()))
    call("apply_llama31_rope", rope.apply_llama31_rope_pos_ids,
         lambda: (*heads(), integers(4, 3, 2, 1, 0)))
    call("apply_llama31_rope", rope.apply_llama31_rope_pos_ids_inplace,
         lambda: (*heads(), integers(4, 3, 2, 1, 0)))
    call("apply_llama31_rope_by_offsets", rope.apply_llama31_rope,
         lambda: (*heads(), *requests()))
    call("apply_llama31_rope_by_offsets", rope.apply_llama31_rope_inplace,
         lambda: (*heads(), *requests()))
    for function in (rope.apply_rope_with_cos_sin_cache,
                     rope.apply_rope_with_cos_sin_cache_inplace):
        call("apply_rope_with_cos_sin_cache", function,
             lambda: (integers(1, 0), numbers(2, 128), numbers(2, 64), 32, numbers(9, 32)))
    call("rope_quantize", rope.rope_quantize_fp8,
         lambda: (numbers(2, 4, 32), numbers(2, 32), numbers(2, 4, 64), numbers(2, 64),
                  numbers(9, 32), integers(1, 0)))


def add_pages():
    def tables():
        return integers(0, 1, 1), integers(0, 1, 2), integers(2, 0, 1), integers(0, 1, 3)

    def append(k, v, batch_indices, positions, cache, indices, indptr, last):
        page.append_paged_kv_cache(k, v, batch_indices, positions, cache, indices, indptr, last)
        return cache

    call("append_paged_kv_cache", append,
         lambda: (numbers(3, 2, 32), numbers(3, 2, 32), *tables()[:2], numbers(3, 2, 4, 2, 32),
                  *tables()[2:], integers(3, 4)))
    call("append_paged_mla_kv_cache", page.append_paged_mla_kv_cache,
         lambda: (numbers(3, 512), numbers(3, 64), *tables()[:2], numbers(3, 4, 512),
                  numbers(3, 4, 64), *tables()[2:], integers(3, 4)))
    call("get_batch_indices_positions", page.get_batch_indices_positions,
         lambda: (integers(0, 2, 5), integers(7, 9), 5))
    call("get_seq_lens", page.get_seq_lens, lambda: (integers(0, 2, 5), integers(3, 4), 16))


def add_products():
    bf16, fp8 = torch.bfloat16, torch.float8_e4m3fn

    def segments():
        return numbers(5, 8), numbers(2, 4, 8), 2, True

    def groups(*row_groups):
        return (numbers(5, 128, dtype=fp8), numbers(2, 128, 128, dtype=fp8), torch.rand(5, 1),
                torch.rand(2, 1, 1), integers(*row_groups))

    call("matmul", gemm.mm_bf16,
         lambda: (numbers(3, 8, dtype=bf16), numbers(8, 5, dtype=bf16), numbers(5, dtype=bf16)))
    call("matmul", gemm.bmm_fp8,
         lambda: (numbers(2, 3, 8, dtype=fp8), numbers(2, 8, 5, dtype=fp8), torch.ones(1),
                  torch.ones(1), bf16))
    segment_gemm = gemm.SegmentGEMMWrapper(None)
    call("segment_gemm",
         lambda x, w, n, t, p, i: segment_gemm.run(x, w, n, t, seg_indptr=p, weight_indices=i),
         lambda: (*segments(), integers(0, 2, 5), integers(1, 0)))
    call("grouped_gemm", grouped_mm.grouped_mm_bf16,
         lambda: (numbers(5, 8, dtype=bf16), numbers(2, 4, 8, dtype=bf16), integers(0, 2, 5)))
    call("grouped_gemm",
         lambda *a: gemm.group_gemm_fp8_nt_groupwise(*a, scale_major_mode="K"),
         lambda: groups(0, 2, 5))
    call("grouped_gemm_by_row", gemm.group_deepgemm_fp8_nt_groupwise,
         lambda: groups(0, 0, 1, 1, 1))
    call("grouped_gemm_masked", gemm.batch_deepgemm_fp8_nt_groupwise,
         lambda: (numbers(2, 3, 128, dtype=fp8), numbers(2, 128, 128, dtype=fp8),
                  torch.rand(2, 3, 1), torch.rand(2, 1, 1), integers(3, 3), 3))


def add_quantization():
    def bits(*shape):
        return torch.rand(*shape) > 0.5

    def bytes_of(*shape):
        return torch.zeros(*shape, dtype=torch.uint8)

    call("packbits", quantization.packbits, lambda: (bits(19),))
    # segment_packbits() reads how many bytes it needs, which no graph can.
    call("segment_packbits", lambda x, p, out, q: lib.segment_packbits(x, p, out, q, False),
         lambda: (bits(19), integers(0, 9, 19), bytes_of(4), integers(0, 2, 4)))
    call("quantize", lambda x: quantization.per_token_group_quant_8bit(x, 32),
         lambda: (numbers(3, 64),))
    call("dequantize", lambda q, s, out: lib.dequantize(q, s, out),
         lambda: (torch.randint(-9, 9, (3, 64), dtype=torch.int8), numbers(3, 1), numbers(3, 64)))
    call("quantize_blocks", quantization.mxfp8_quantize, lambda: (numbers(3, 64),))
    call("quantize_blocks", quantization.fp4_quantize, lambda: (numbers(3, 64), torch.ones(1)))
    call("dequantize_blocks",
         lambda q, s: quantization.mxfp8_dequantize_host(q, s, is_sf_swizzled_layout=False),
         lambda: (numbers(3, 64, dtype=torch.float8_e4m3fn), bytes_of(6) + 127))
    call("swizzle_block_scales", quantization.block_scale_interleave,
         lambda: (bytes_of(3, 2) + 5,))


def workspace():
    return torch.zeros(1 << 22, dtype=torch.uint8)


def pages():
    return integers(0, 1, 3), integers(0, 1, 2), integers(3, 4)


def add_attention():
    def cache():
        return numbers(3, 2, 16, 2, 64)

    def tokens():
        return numbers(5, 4, 64), numbers(9, 2, 64), numbers(9, 2, 64)

    def states(*shape):
        return numbers(3, *shape, 2, 64), numbers(3, *shape, 2)

    call("merge_state", flashinfer.merge_state, lambda: (*states(), *states()))
    call("merge_state_in_place", flashinfer.merge_state_in_place,
         lambda: (*states(), *states(), torch.tensor([True, False, True])))
    call("merge_states", flashinfer.merge_states, lambda: states(4))
    call("variable_length_merge_states", variable_length_merge_states,
         lambda: (*states(), integers(0, 2, 2, 3)))
    call("single_attention", flashinfer.single_decode_with_kv_cache,
         lambda: (numbers(4, 64), *tokens()[1:]))
    call("single_attention", lambda q, k, v: flashinfer.single_prefill_with_kv_cache(
        q, k, v, causal=True, return_lse=True), tokens)
    call("single_attention_with", lambda q, k, v: flashinfer.single_decode_with_kv_cache(
        q, k, v, k_scale=0.5, sm_scale=0.25), lambda: (numbers(4, 64), *tokens()[1:]))

    decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace())
    decode.plan(*pages(), 4, 2, 64, 16, q_data_type="float32")
    paged = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace())
    paged.plan(integers(0, 2, 5), *pages(), 4, 2, 64, 16, causal=True, q_data_type="float32")
    ragged = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace())
    ragged.plan(integers(0, 2, 5), integers(0, 4, 9), 4, 2, 64, causal=True,
                q_data_type="float32")
    call("attention_run", decode.run, lambda: (numbers(2, 4, 64), cache()))
    call("attention_run", lambda q, kv: decode.run(q, kv, return_lse=True, v_scale=0.5),
         lambda: (numbers(2, 4, 64), cache()))
    call("attention_run", lambda q, kv: paged.run(q, (kv[:, 0], kv[:, 1])),
         lambda: (numbers(5, 4, 64), cache()))
    call("attention_run", ragged.run, tokens)
    call("attention_run_with", lambda q, kv, sinks: decode.run(q, kv, sinks=sinks),
         lambda: (numbers(2, 4, 64), cache(), numbers(4)))

    cascade = flashinfer.MultiLevelCascadeAttentionWrapper(2, workspace())
    cascade.plan([integers(0, 2), integers(0, 1, 2)], [integers(0, 1), integers(0, 1, 2)],
                 [integers(0), integers(1, 2)], [integers(16), integers(3, 4)], 4, 2, 64, 16,
                 q_data_type="float32")
    call("cascade_run", cascade.run, lambda: (numbers(2, 4, 64), cache()))

    def mla(kv_data_type):
        wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(workspace())
        wrapper.plan(integers(0, 1, 2), *pages()[:2], integers(3, 20), 4, 512, 64, 16, True, 0.07,
                     "float32", kv_data_type)
        return wrapper.run

    def latents(make):
        return numbers(2, 4, 512), numbers(2, 4, 64), make(3, 16, 512), make(3, 16, 64)

    def int8(*shape):
        return torch.randint(-9, 9, shape, dtype=torch.int8)

    call("mla_run", mla("float32"), lambda: latents(numbers))
    scaled = mla("int8")
    call("mla_run_scaled", lambda *a: scaled(*a[:4], ckv_scale_arr=a[4], kpe_scale=0.1),
         lambda: (*latents(int8), torch.rand(3, 16, 4)))


def add_sampling():
    def logits():
        return (numbers(ROWS, VOCAB),)

    def probs():
        return (chances(ROWS, VOCAB),)

    def pipe(x):
        fused = LogitsPipe([Temperature(), Softmax(), TopK(), TopP(), MinP(), Sample()])
        return fused(x, temperature=0.5, top_k=9, top_p=0.5, min_p=0.1, seed=3)

    for temperature in (None, 0.5, torch.rand(ROWS)):
        call("softmax", sampling.softmax, lambda t=temperature: (numbers(ROWS, VOCAB), t))
    call("sample_from_logits", lambda x: sampling.sampling_from_logits(x, seed=3), logits)
    call("sample_from_logits",
         lambda x, k, p: sampling.top_k_top_p_sampling_from_logits(x, k, p, seed=3),
         lambda: (*logits(), integers(1, 2, 3, 4), 0.5))
    call("sample_from_logits", pipe, logits)
    call("sample_from_probs",
         lambda p, i: sampling.sampling_from_probs(p, i, seed=3, offset=4, return_valid=True),
         lambda: (*probs(), integers(0, 3, 3, dtype=torch.int64)))
    call("sample_from_probs", lambda p, s: sampling.top_k_sampling_from_probs(p, 7, seed=s),
         lambda: (*probs(), integers(5, 6, 7, 8, dtype=torch.int64)))
    call("sample_from_probs", lambda p, t: sampling.top_p_sampling_from_probs(p, t, seed=3),
         lambda: (*probs(), torch.rand(ROWS)))
    call("sample_from_probs",
         lambda p: sampling.min_p_sampling_from_probs(p, 0.3, seed=3, check_nan=True), probs)
    call("sample_from_probs", lambda p: sampling.top_k_top_p_sampling_from_probs(
        p, 7, 0.5, filter_apply_order="joint", seed=3), probs)
    call("top_k_renorm_probs", lambda p: sampling.top_k_renorm_probs(p, 3), probs)
    call("top_p_renorm_probs", lambda p: sampling.top_p_renorm_probs(p, 0.4), probs)
    call("top_k_mask_logits", sampling.top_k_mask_logits,
         lambda: (*logits(), integers(1, 2, 3, 4)))
    for counters in ((), (integers(5, 5), integers(7, 7))):
        call("chain_speculative_sampling",
             lambda *a: sampling.chain_speculative_sampling(*a, seed=3),
             lambda c=counters: (chances(2, 3, VOCAB), integers([1, 2, 3], [4, 5, 6]),
                                 chances(2, 4, VOCAB), *c))


def add_topk():
    def scores():
        return numbers(2, VOCAB)

    def table():
        return torch.arange(2 * VOCAB).int().reshape(2, VOCAB)

    call("top_k", lambda x: flashinfer.top_k(x, 5, sorted=True), lambda: (scores(),))
    call("top_k", lambda x: topk.topk_clusters_exact(x, 5), lambda: (scores(),))
    call("top_k", lambda x, t, n, s: topk.top_k_page_table_transform(
        x, t, n, 5, page_table_row_starts=s, page_size=2),
        lambda: (scores(), table(), integers(50, 3), integers(2, 1)))
    call("top_k_page_table_transform", lambda x, t, n: topk.top_k_page_table_transform(x, t, n, 5),
         lambda: (scores(), table(), integers(50, 3)))
    call("top_k_ragged_transform", lambda x, o, n: topk.top_k_ragged_transform(x, o, n, 5),
         lambda: (scores(), integers(100, 200), integers(50, 3)))


add_norms()
add_activations()
add_rope()
add_pages()
add_products()
add_quantization()
add_attention()
add_sampling()
add_topk()
