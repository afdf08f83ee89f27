// SPDX-License-Identifier: Apache-2.0
// Products of row segments with a weight each, as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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

/// Element i of a vector of i32 or i64.
int64_t IntAt(const TensorView& tensor, int64_t i);

/// The tensors that segments are of, with their names for messages.
struct SegmentSources {
  std::string_view x_name;
  const TensorView& x;  // [num_rows, …]
  std::string_view weights_name;
  const TensorView& weights;  // [num_weights, …]
};

/// The segments that are not empty, by weight. Without `weight_indices` segment i has weight i.
std::vector<GemmSegment> ReadSegments(const TensorView& indptr, const TensorView& weight_indices,
                                      const SegmentSources& sources);

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
