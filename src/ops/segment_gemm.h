// SPDX-License-Identifier: Apache-2.0
// Products of row segments with a weight each, as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "ops/gemm.h"

namespace flashinfer {

struct SegmentGemmProblem {
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t d_in = 4096;
  int64_t d_out = 16;
};

template <FieldsOf<SegmentGemmProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(d_in)
  FLASHINFER_NAMED(d_out)
}

/// Rows `begin` to `end` of x, times weight `weight`; none is empty.
struct GemmSegment {
  int64_t weight;
  int64_t begin;
  int64_t end;
};

struct SegmentGemmParams {
  std::span<const GemmSegment> segments;  // by weight
  MatrixRows x;                           // [num_rows, d_in]
  MatrixRows weights;                     // the first of [num_weights, d_out, d_in]
  int64_t weight_stride;                  // from one to the next
  void* out;                              // [num_rows, d_out], dense rows
  int64_t out_stride;
  DType dtype_out;
};

struct SegmentGemmOp {
  static constexpr std::string_view kName = "segment_gemm";
  using Problem = SegmentGemmProblem;
  using Entry = void (*)(const SegmentGemmParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
