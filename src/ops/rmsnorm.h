// SPDX-License-Identifier: Apache-2.0
// RMSNorm as the dispatcher sees it: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/norm.h"

namespace flashinfer {

/// What decides who can run it.
struct RmsNormProblem {
  DType dtype = DType::kBF16;
  DType dtype_weight = DType::kBF16;
  int64_t hidden_size = 4096;
};

template <FieldsOf<RmsNormProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_weight)
  FLASHINFER_NAMED(hidden_size)
}

/// One call: num_outer x num_inner rows; strides count elements.
struct RmsNormParams {
  const void* x;
  const void* weight;
  void* out;
  int64_t num_outer;
  int64_t num_inner;
  int64_t hidden_size;
  int64_t x_stride_outer;
  int64_t x_stride_inner;
  int64_t out_stride_outer;
  int64_t out_stride_inner;
  float eps;
  DType dtype;
  DType dtype_weight;
};

struct RmsNormOp {
  static constexpr std::string_view kName = "rmsnorm";
  using Problem = RmsNormProblem;
  using Entry = void (*)(const RmsNormParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
