// SPDX-License-Identifier: Apache-2.0
// Gated activations as the dispatcher sees them: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/activation.h"

namespace flashinfer {

/// What decides who can run it.
struct ActivationProblem {
  DType dtype = DType::kBF16;
  int64_t size = 4096;
};

template <FieldsOf<ActivationProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(size)
}

/// One call; strides count elements.
struct ActivationParams {
  const void* x;
  void* out;
  int64_t num_tokens;
  int64_t size;
  int64_t x_stride;
  int64_t out_stride;
  DType dtype;
};

struct SiluAndMulOp {
  static constexpr std::string_view kName = "silu_and_mul";
  using Problem = ActivationProblem;
  using Entry = void (*)(const ActivationParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
