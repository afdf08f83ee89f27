// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows with a matrix each, as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "flashinfer/grouped_gemm.h"
#include "ops/segment_gemm.h"

namespace flashinfer {

struct GroupedGemmProblem {
  DType dtype_a = DType::kBF16;
  DType dtype_b = DType::kBF16;
  DType dtype_out = DType::kBF16;
  bool has_scales = false;
  int64_t n = 4096;
  int64_t k = 4096;
};

template <FieldsOf<GroupedGemmProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_a)
  FLASHINFER_NAMED(dtype_b)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(has_scales)
  FLASHINFER_NAMED(n)
  FLASHINFER_NAMED(k)
}

/// Factors of a matrix's blocks; strides count elements. Null data: none.
struct ScaleBlocks {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
  int64_t group_stride = 0;
  int64_t rows_per_scale = 1;
  int64_t cols_per_scale = 1;
};

struct GroupedGemmParams {
  std::span<const GemmSegment> segments;  // by weight, which is the group
  MatrixRows a;                           // [rows, k], of the first group where each has its own
  int64_t a_group_stride;                 // 0: all groups' rows are in one matrix
  MatrixRows b;                           // [n, k] of the first group
  int64_t b_group_stride;
  void* out;  // [rows, n], dense rows, as a
  int64_t out_stride;
  int64_t out_group_stride;
  DType dtype_out;
  ScaleBlocks a_scales;
  ScaleBlocks b_scales;
};

struct GroupedGemmOp {
  static constexpr std::string_view kName = "grouped_gemm";
  using Problem = GroupedGemmProblem;
  using Entry = void (*)(const GroupedGemmParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
