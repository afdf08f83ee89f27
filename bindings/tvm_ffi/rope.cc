// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/rope.h for other languages.
#include "flashinfer/rope.h"

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

// Parameters stay flat, however many: a struct of them would be made anew at every call.

RopeOptions Options(int64_t rotary_dim, bool interleave, double rope_scale, double rope_theta) {
  return {.style = interleave ? RopeStyle::kInterleaved : RopeStyle::kNeox,
          .rotary_dim = rotary_dim,
          .rope_theta = static_cast<float>(rope_theta),
          .rope_scale = static_cast<float>(rope_scale)};
}

RopeOptions Llama31(RopeOptions options, double low_freq_factor, double high_freq_factor,
                    double old_context_len) {
  options.scaling = RopeScaling::kLlama31;
  options.low_freq_factor = static_cast<float>(low_freq_factor);
  options.high_freq_factor = static_cast<float>(high_freq_factor);
  options.old_context_len = static_cast<int64_t>(old_context_len);
  return options;
}

void ApplyRope(const TensorView& q, const TensorView& k, const TensorView& pos_ids,
               const TensorView& q_out, const TensorView& k_out, int64_t rotary_dim,
               bool interleave, double rope_scale, double rope_theta) {
  flashinfer::ApplyRope(q, k, pos_ids, q_out, k_out,
                        Options(rotary_dim, interleave, rope_scale, rope_theta), StreamOf(q));
}

// NOLINTNEXTLINE(readability-function-size)
void ApplyRopeByOffsets(const TensorView& q, const TensorView& k, const TensorView& indptr,
                        const TensorView& offsets, const TensorView& q_out, const TensorView& k_out,
                        int64_t rotary_dim, bool interleave, double rope_scale, double rope_theta) {
  flashinfer::ApplyRopeByOffsets(q, k, {indptr, offsets}, q_out, k_out,
                                 Options(rotary_dim, interleave, rope_scale, rope_theta),
                                 StreamOf(q));
}

// NOLINTNEXTLINE(readability-function-size)
void ApplyLlama31Rope(const TensorView& q, const TensorView& k, const TensorView& pos_ids,
                      const TensorView& q_out, const TensorView& k_out, int64_t rotary_dim,
                      bool interleave, double rope_scale, double rope_theta, double low_freq_factor,
                      double high_freq_factor, double old_context_len) {
  flashinfer::ApplyRope(q, k, pos_ids, q_out, k_out,
                        Llama31(Options(rotary_dim, interleave, rope_scale, rope_theta),
                                low_freq_factor, high_freq_factor, old_context_len),
                        StreamOf(q));
}

// NOLINTNEXTLINE(readability-function-size)
void ApplyLlama31RopeByOffsets(const TensorView& q, const TensorView& k, const TensorView& indptr,
                               const TensorView& offsets, const TensorView& q_out,
                               const TensorView& k_out, int64_t rotary_dim, bool interleave,
                               double rope_scale, double rope_theta, double low_freq_factor,
                               double high_freq_factor, double old_context_len) {
  flashinfer::ApplyRopeByOffsets(q, k, {indptr, offsets}, q_out, k_out,
                                 Llama31(Options(rotary_dim, interleave, rope_scale, rope_theta),
                                         low_freq_factor, high_freq_factor, old_context_len),
                                 StreamOf(q));
}

/// [num_tokens, num_heads * head_dim] as [num_tokens, num_heads, head_dim]; what has three
/// dimensions already stays.
TensorView AsHeads(std::string_view name, const TensorView& x, int64_t head_dim) {
  if (x.rank() != 2) return x;
  if (head_dim <= 0 || x.shape(1) % head_dim != 0) {
    throw Error(ErrorKind::kInvalidArgument,
                std::string(name) + ": is " + Text(x) +
                    ", expected rows of a multiple of head_size=" + std::to_string(head_dim));
  }
  return {x.data(), x.dtype(), Dims{x.shape(0), x.shape(1) / head_dim, head_dim},
          Dims{x.stride(0), x.stride(1) * head_dim, x.stride(1)}, x.device()};
}

void ApplyRopeWithCosSinCache(const TensorView& q, const TensorView& k, const TensorView& positions,
                              const TensorView& q_out, const TensorView& k_out, int64_t head_size,
                              const TensorView& cos_sin_cache, bool is_neox) {
  const RopeOptions options{.style = is_neox ? RopeStyle::kNeox : RopeStyle::kInterleaved,
                            .rotary_dim = cos_sin_cache.rank() == 2 ? cos_sin_cache.shape(1) : 0,
                            .cos_sin_cache = cos_sin_cache};
  flashinfer::ApplyRope(AsHeads("query", q, head_size), AsHeads("key", k, head_size), positions,
                        AsHeads("query", q_out, head_size), AsHeads("key", k_out, head_size),
                        options, StreamOf(q));
}

// NOLINTNEXTLINE(readability-function-size)
void RopeQuantize(const TensorView& q_rope, const TensorView& k_rope, const TensorView& q_nope,
                  const TensorView& k_nope, const TensorView& q_rope_out,
                  const TensorView& k_rope_out, const TensorView& q_nope_out,
                  const TensorView& k_nope_out, const TensorView& pos_ids,
                  const TensorView& cos_sin_cache, bool is_neox, double quant_scale_q,
                  double quant_scale_kv) {
  const RopeOptions options{.style = is_neox ? RopeStyle::kNeox : RopeStyle::kInterleaved,
                            .cos_sin_cache = cos_sin_cache,
                            .quant_scale_q = static_cast<float>(quant_scale_q),
                            .quant_scale_kv = static_cast<float>(quant_scale_kv)};
  flashinfer::RopeQuantize(
      {q_rope, k_rope, q_nope, k_nope, q_rope_out, k_rope_out, q_nope_out, k_nope_out}, pos_ids,
      options, StreamOf(q_rope));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(apply_rope, flashinfer::bindings::ApplyRope)
FLASHINFER_EXPORT(apply_rope_by_offsets, flashinfer::bindings::ApplyRopeByOffsets)
FLASHINFER_EXPORT(apply_llama31_rope, flashinfer::bindings::ApplyLlama31Rope)
FLASHINFER_EXPORT(apply_llama31_rope_by_offsets, flashinfer::bindings::ApplyLlama31RopeByOffsets)
FLASHINFER_EXPORT(apply_rope_with_cos_sin_cache, flashinfer::bindings::ApplyRopeWithCosSinCache)
FLASHINFER_EXPORT(rope_quantize, flashinfer::bindings::RopeQuantize)
