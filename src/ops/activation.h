// SPDX-License-Identifier: Apache-2.0
// Gated activations as the dispatcher sees them: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/activation.h"

namespace flashinfer {

enum class ActivationKind : uint8_t {
  kSilu,      ///< `silu`
  kGelu,      ///< `gelu`: by the normal distribution
  kGeluTanh,  ///< `gelu_tanh`: its approximation
};
std::string ValueText(ActivationKind value);
void ParseValue(std::string_view field, std::string_view text, ActivationKind& value);

/// What decides who can run it.
struct ActivationProblem {
  ActivationKind kind = ActivationKind::kSilu;
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t size = 4096;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<ActivationProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(kind)
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(size)
  FLASHINFER_NAMED(arch)
}

/// One call; strides count elements.
struct ActivationParams {
  const void* x;
  void* out;
  int64_t num_tokens;
  int64_t size;
  int64_t x_stride;
  int64_t out_stride;
  float out_scale;
  const float* out_scale_data;  // null: out_scale holds it
  ActivationKind kind;
  DType dtype;
  DType dtype_out;
  Stream stream;
};

struct ActivationOp {
  static constexpr std::string_view kName = "activation";
  using Problem = ActivationProblem;
  using Entry = void (*)(const ActivationParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
