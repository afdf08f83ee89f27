# SPDX-License-Identifier: Apache-2.0
"""What the library's functions take, and which tensors they write to: a line for each.

The types are those of torch schemas, and

``Tensor!``, ``Tensor!?``
    written to.
``Row[int]``, ``Row[float]``
    a number or a tensor with one per row; two arguments of the op, of which one is not used.
``Plan``
    an object that the library made; the op takes its ``id()``, so that a graph which holds one
    does not outlive its process.
``bytes``
    a record, packed by ``torch_ops.pack``; the op takes it as text, a letter for each half byte.
"""
import functools
import re

SIGNATURES = """
rmsnorm(Tensor x, Tensor weight, Tensor! out, float eps)
rmsnorm_quant(Tensor! out, Tensor x, Tensor weight, float scale, Tensor? scale_tensor, float eps)
gemma_rmsnorm(Tensor x, Tensor weight, Tensor! out, float eps)
fused_add_rmsnorm(Tensor! x, Tensor! residual, Tensor weight, float eps)
fused_add_rmsnorm_quant(Tensor! out, Tensor x, Tensor! residual, Tensor weight, float scale,
    Tensor? scale_tensor, float eps)
gemma_fused_add_rmsnorm(Tensor! x, Tensor! residual, Tensor weight, float eps)
layernorm(Tensor x, Tensor weight, Tensor? bias, Tensor! out, float eps)
layernorm_quant(Tensor! out, Tensor x, Tensor weight, Tensor? bias, float scale,
    Tensor? scale_tensor, float eps)

silu_and_mul(Tensor x, Tensor! out)
gelu_and_mul(Tensor x, Tensor! out)
gelu_tanh_and_mul(Tensor x, Tensor! out)

apply_rope(Tensor q, Tensor k, Tensor pos_ids, Tensor! q_out, Tensor! k_out, int rotary_dim,
    bool interleave, float rope_scale, float rope_theta)
apply_rope_by_offsets(Tensor q, Tensor k, Tensor indptr, Tensor offsets, Tensor! q_out,
    Tensor! k_out, int rotary_dim, bool interleave, float rope_scale, float rope_theta)
apply_llama31_rope(Tensor q, Tensor k, Tensor pos_ids, Tensor! q_out, Tensor! k_out,
    int rotary_dim, bool interleave, float rope_scale, float rope_theta, float low_freq_factor,
    float high_freq_factor, float old_context_len)
apply_llama31_rope_by_offsets(Tensor q, Tensor k, Tensor indptr, Tensor offsets, Tensor! q_out,
    Tensor! k_out, int rotary_dim, bool interleave, float rope_scale, float rope_theta,
    float low_freq_factor, float high_freq_factor, float old_context_len)
apply_rope_with_cos_sin_cache(Tensor q, Tensor k, Tensor positions, Tensor! q_out, Tensor! k_out,
    int head_size, Tensor cos_sin_cache, bool is_neox)
rope_quantize(Tensor q_rope, Tensor k_rope, Tensor? q_nope, Tensor? k_nope, Tensor! q_rope_out,
    Tensor! k_rope_out, Tensor!? q_nope_out, Tensor!? k_nope_out, Tensor pos_ids,
    Tensor cos_sin_cache, bool is_neox, float quant_scale_q, float quant_scale_kv)

append_paged_kv_cache(Tensor k, Tensor v, Tensor batch_indices, Tensor positions, Tensor! k_cache,
    Tensor! v_cache, Tensor indices, Tensor indptr, Tensor last_page_len, bool is_hnd)
append_paged_mla_kv_cache(Tensor ckv, Tensor kpe, Tensor batch_indices, Tensor positions,
    Tensor! ckv_cache, Tensor! kpe_cache, Tensor indices, Tensor indptr, Tensor last_page_len)
get_batch_indices_positions(Tensor append_indptr, Tensor seq_lens, Tensor! batch_indices,
    Tensor! positions)
get_seq_lens(Tensor indptr, Tensor last_page_len, int page_size, Tensor! seq_lens)

matmul(Tensor a, Tensor b, Tensor! out, float scale, Tensor? a_scale, Tensor? b_scale)
segment_gemm(Tensor x, Tensor weights, bool is_transposed, Tensor indptr, Tensor? weight_indices,
    Tensor! out)
grouped_gemm(Tensor a, Tensor b, Tensor indptr, Tensor! out, Tensor? a_scale, Tensor? b_scale,
    int rows_per_scale, int n_per_scale, int k_per_scale)
grouped_gemm_by_row(Tensor a, Tensor b, Tensor row_groups, Tensor! out, Tensor? a_scale,
    Tensor? b_scale, int rows_per_scale, int n_per_scale, int k_per_scale)
grouped_gemm_masked(Tensor a, Tensor b, Tensor num_rows, Tensor! out, Tensor? a_scale,
    Tensor? b_scale, int rows_per_scale, int n_per_scale, int k_per_scale)

merge_state(Tensor v_a, Tensor s_a, Tensor v_b, Tensor s_b, Tensor! v_merged, Tensor! s_merged)
merge_state_in_place(Tensor! v, Tensor! s, Tensor v_other, Tensor s_other, Tensor? mask)
merge_states(Tensor v, Tensor s, Tensor! v_merged, Tensor! s_merged)
variable_length_merge_states(Tensor v, Tensor s, Tensor indptr, Tensor! v_merged, Tensor! s_merged)
single_attention(bytes record, Tensor q, Tensor k, Tensor v, Tensor! out, Tensor!? lse,
    Tensor? custom_mask)
single_attention_with(bytes record, Tensor q, Tensor k, Tensor v, Tensor! out, Tensor!? lse,
    Tensor? custom_mask, float[] scales, Tensor?[] extras)
attention_run(Plan plan, Tensor q, Tensor k, Tensor? v, Tensor! out, Tensor!? lse, float q_scale,
    float k_scale, float v_scale)
single_attention_variant(bytes record, Plan variant, Tensor q, Tensor k, Tensor v, Tensor! out,
    Tensor!? lse, Tensor?[] tensors, float[] numbers)
attention_run_with(Plan plan, Tensor q, Tensor k, Tensor? v, Tensor! out, Tensor!? lse,
    float[] scales, Tensor?[] tensors)
attention_run_variant(Plan plan, Tensor q, Tensor k, Tensor? v, Tensor! out, Tensor!? lse,
    float[] scales, Tensor?[] tensors, float[] numbers)
cascade_run(Plan plan, Tensor q, Tensor k, Tensor? v, Tensor! out, Tensor!? lse)
mla_run(Plan plan, Tensor q_nope, Tensor? q_pe, Tensor ckv, Tensor? kpe, Tensor! out, Tensor!? lse,
    float ckv_scale, float kpe_scale)
mla_run_scaled(Plan plan, Tensor q_nope, Tensor? q_pe, Tensor ckv, Tensor? kpe, Tensor! out,
    Tensor!? lse, Tensor ckv_scales, float kpe_scale)

packbits(Tensor x, Tensor! packed, bool is_little)
segment_packbits(Tensor x, Tensor indptr, Tensor! packed, Tensor! packed_indptr, bool is_little)
quantize(Tensor x, Tensor! q, Tensor! scales, bool dynamic, float min_scale, bool power_of_two)
dequantize(Tensor q, Tensor scales, Tensor! out)
quantize_blocks(Tensor x, Tensor! q, Tensor! block_scales, str format, int layout,
    float global_scale, Tensor? global_scale_tensor)
dequantize_blocks(Tensor q, Tensor block_scales, Tensor! out, str format, int layout,
    float global_scale, Tensor? global_scale_tensor)
swizzle_block_scales(Tensor linear, Tensor! swizzled, int layout)

softmax(Tensor logits, Tensor! probs, Row[float] temperature)
sample_from_logits(Tensor logits, Tensor! tokens, Tensor!? valid, Tensor? indices,
    Row[float] temperature, Row[int] top_k, Row[float] top_p, Row[float] min_p, bool joint,
    Row[int] seed, Row[int] offset)
sample_from_probs(Tensor probs, Tensor! tokens, Tensor!? valid, Tensor? indices, Row[int] top_k,
    Row[float] top_p, Row[float] min_p, bool joint, Row[int] seed, Row[int] offset)
top_k_renorm_probs(Tensor probs, Tensor! out, Row[int] top_k)
top_p_renorm_probs(Tensor probs, Tensor! out, Row[float] top_p)
top_k_mask_logits(Tensor logits, Tensor! out, Row[int] top_k)
chain_speculative_sampling(Tensor draft_probs, Tensor draft_tokens, Tensor target_probs,
    Tensor! tokens, Tensor!? num_accepted, Tensor!? num_emitted, Row[int] seed, Row[int] offset)

top_k(Tensor input, Tensor!? values, Tensor! indices, bool sorted, bool highest_index,
    Tensor? row_starts, Tensor? lengths)
top_k_page_table_transform(Tensor input, Tensor page_table, Tensor? row_to_request, int page_size,
    Tensor! out, bool highest_index, Tensor? lengths)
top_k_ragged_transform(Tensor input, Tensor offsets, Tensor! out, bool highest_index,
    Tensor? row_starts, Tensor? lengths)
"""


def _arguments(name):
    """(type, name) of the arguments of the function `name`; none where it has no signature."""
    found = re.search(rf"^{name}\(([^)]*)\)", SIGNATURES, re.MULTILINE)
    return [] if found is None else [word.split() for word in found[1].split(",")]


@functools.lru_cache(maxsize=None)
def argument_names(name):
    """The names of the arguments of the function `name`, a row's number and tensor as one."""
    return [argument for _, argument in _arguments(name)]


@functools.lru_cache(maxsize=None)
def written_arguments(name):
    """Place -> name of the arguments that the function `name` writes to."""
    words = _arguments(name)
    return {place: argument for place, (kind, argument) in enumerate(words) if "!" in kind}
