// SPDX-License-Identifier: Apache-2.0
// The norms as the dispatcher sees them: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/norm.h"

namespace flashinfer {

enum class NormKind : uint8_t {
  kRms,    ///< `rms`: x / sqrt(mean(x²) + eps) · weight
  kGemma,  ///< `gemma`: as rms, · (1 + weight)
  kLayer,  ///< `layer`: (x - mean(x)) / sqrt(var(x) + eps) · weight + bias
};
std::string_view Name(NormKind kind);
std::string ValueText(NormKind value);
void ParseValue(std::string_view field, std::string_view text, NormKind& value);

/// What decides who can run it.
struct NormProblem {
  NormKind kind = NormKind::kRms;
  bool adds_residual = false;  ///< residual += x first, and that is what is normalised
  DType dtype = DType::kBF16;  ///< of x and residual
  DType dtype_weight = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t hidden_size = 4096;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<NormProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(kind)
  FLASHINFER_NAMED(adds_residual)
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_weight)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(hidden_size)
  FLASHINFER_NAMED(arch)
}

/// One of num_outer x num_inner rows; strides count elements.
struct NormRows {
  void* data;
  int64_t stride_outer;
  int64_t stride_inner;
};

/// One call.
struct NormParams {
  NormRows x;
  NormRows residual;  // null data: none
  NormRows out;
  const void* weight;
  const void* bias;  // of kLayer, else null
  int64_t num_outer;
  int64_t num_inner;
  int64_t hidden_size;
  float eps;
  float out_scale;
  const float* out_scale_data;  // null: out_scale holds it
  NormKind kind;
  DType dtype;
  DType dtype_weight;
  DType dtype_out;
  Stream stream;
};

struct NormOp {
  static constexpr std::string_view kName = "norm";
  using Problem = NormProblem;
  using Entry = void (*)(const NormParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
