// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/sampling.h for other languages.
#include "flashinfer/sampling.h"

#include "bindings/tvm_ffi/call.h"
#include "bindings/tvm_ffi/per_row.h"

namespace flashinfer::bindings {
namespace {

void Softmax(const TensorView& logits, const TensorView& probs, const PerRow<float>& temperature) {
  flashinfer::Softmax(logits, probs, temperature, {}, StreamOf(logits));
}

// The fields of SamplingOptions one by one: that is what other languages can hand over cheaply.
SamplingOptions Options(const TensorView& indices, const PerRow<int32_t>& top_k,
                        const PerRow<float>& top_p, const PerRow<float>& min_p, bool joint) {
  return {.top_k = top_k,
          .top_p = top_p,
          .min_p = min_p,
          .filter_order = joint ? FilterOrder::kJoint : FilterOrder::kTopKFirst,
          .indices = indices};
}

// NOLINTNEXTLINE(readability-function-size): flat, as nothing is made at a call
void SampleFromLogits(const TensorView& logits, const TensorView& tokens, const TensorView& valid,
                      const TensorView& indices, const PerRow<float>& temperature,
                      const PerRow<int32_t>& top_k, const PerRow<float>& top_p,
                      const PerRow<float>& min_p, bool joint, const PerRow<int64_t>& seed,
                      const PerRow<int64_t>& offset) {
  SamplingOptions options = Options(indices, top_k, top_p, min_p, joint);
  options.temperature = temperature;
  options.seed = seed;
  options.offset = offset;
  flashinfer::SampleFromLogits(logits, tokens, options, valid, StreamOf(logits));
}

// NOLINTNEXTLINE(readability-function-size)
void SampleFromProbs(const TensorView& probs, const TensorView& tokens, const TensorView& valid,
                     const TensorView& indices, const PerRow<int32_t>& top_k,
                     const PerRow<float>& top_p, const PerRow<float>& min_p, bool joint,
                     const PerRow<int64_t>& seed, const PerRow<int64_t>& offset) {
  SamplingOptions options = Options(indices, top_k, top_p, min_p, joint);
  options.seed = seed;
  options.offset = offset;
  flashinfer::SampleFromProbs(probs, tokens, options, valid, StreamOf(probs));
}

void TopKRenormProbs(const TensorView& probs, const TensorView& out, const PerRow<int32_t>& top_k) {
  flashinfer::TopKRenormProbs(probs, out, top_k, {}, StreamOf(probs));
}

void TopPRenormProbs(const TensorView& probs, const TensorView& out, const PerRow<float>& top_p) {
  flashinfer::TopPRenormProbs(probs, out, top_p, {}, StreamOf(probs));
}

void TopKMaskLogits(const TensorView& logits, const TensorView& out, const PerRow<int32_t>& top_k) {
  flashinfer::TopKMaskLogits(logits, out, top_k, {}, StreamOf(logits));
}

void ChainSpeculativeSampling(const TensorView& draft_probs, const TensorView& draft_tokens,
                              const TensorView& target_probs, const TensorView& tokens,
                              const TensorView& num_accepted, const TensorView& num_emitted,
                              const PerRow<int64_t>& seed, const PerRow<int64_t>& offset) {
  flashinfer::ChainSpeculativeSampling(
      draft_probs, draft_tokens, target_probs,
      {.tokens = tokens, .num_accepted = num_accepted, .num_emitted = num_emitted},
      {.seed = seed, .offset = offset}, StreamOf(draft_probs));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(softmax, flashinfer::bindings::Softmax)
FLASHINFER_EXPORT(sample_from_logits, flashinfer::bindings::SampleFromLogits)
FLASHINFER_EXPORT(sample_from_probs, flashinfer::bindings::SampleFromProbs)
FLASHINFER_EXPORT(top_k_renorm_probs, flashinfer::bindings::TopKRenormProbs)
FLASHINFER_EXPORT(top_p_renorm_probs, flashinfer::bindings::TopPRenormProbs)
FLASHINFER_EXPORT(top_k_mask_logits, flashinfer::bindings::TopKMaskLogits)
FLASHINFER_EXPORT(chain_speculative_sampling, flashinfer::bindings::ChainSpeculativeSampling)
