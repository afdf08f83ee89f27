// SPDX-License-Identifier: Apache-2.0
// Dense matrix products as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/gemm.h"

namespace flashinfer {

struct GemmProblem {
  DType dtype_a = DType::kBF16;
  DType dtype_b = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t m = 1024;
  int64_t n = 1024;
  int64_t k = 1024;
};

template <FieldsOf<GemmProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_a)
  FLASHINFER_NAMED(dtype_b)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(m)
  FLASHINFER_NAMED(n)
  FLASHINFER_NAMED(k)
}

/// A matrix of any strides, in elements.
struct MatrixRows {
  const void* data;
  DType dtype;
  int64_t rows;
  int64_t cols;
  int64_t row_stride;
  int64_t col_stride;
};

/// A product of one row or more in each dimension.
struct GemmParams {
  MatrixRows a;  // [m, k]
  MatrixRows b;  // [n, k]
  void* out;     // [m, n], dense rows
  int64_t out_stride;
  DType dtype_out;
  float scale;
};

struct GemmOp {
  static constexpr std::string_view kName = "gemm";
  using Problem = GemmProblem;
  using Entry = void (*)(const GemmParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

/// What Gemm() and SegmentGemm() take: the checked view of a matrix, and a factor that is a number
/// or a tensor of one.
MatrixRows MatrixOf(const TensorView& matrix);
float CheckScale(std::string_view name, float value, const TensorView& tensor);
void FillZero(const TensorView& out);

}  // namespace flashinfer
