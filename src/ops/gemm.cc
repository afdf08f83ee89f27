// SPDX-License-Identifier: Apache-2.0
// Dense matrix products: check, choose, pack, run.
#include "ops/gemm.h"

#include <cstring>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

WeightFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return WeightFormat::kF16;
    case DType::kBF16:
      return WeightFormat::kBF16;
    default:
      return WeightFormat::kF32;
  }
}

/// The elements of a matrix row by row.
std::vector<char> Dense(const TensorView& matrix) {
  const int64_t size = SizeBytes(matrix.dtype());
  std::vector<char> dense(static_cast<size_t>(matrix.num_elements() * size));
  char* to = dense.data();
  for (int64_t i = 0; i < matrix.shape(0); ++i) {
    const char* row = matrix.data_as<const char>() + i * matrix.stride(0) * size;
    for (int64_t j = 0; j < matrix.shape(1); ++j, to += size) {
      std::memcpy(to, row + j * matrix.stride(1) * size, static_cast<size_t>(size));
    }
  }
  return dense;
}

void FillZero(const TensorView& out) {
  const size_t row_bytes = static_cast<size_t>(out.shape(1) * SizeBytes(out.dtype()));
  for (int64_t i = 0; i < out.shape(0); ++i) {
    std::memset(out.data_as<char>() + i * out.stride(0) * SizeBytes(out.dtype()), 0, row_bytes);
  }
}

}  // namespace

void Gemm(const TensorView& a, const TensorView& b, const TensorView& out,
          const GemmOptions& options, Stream) {
  if (LogLevel() > 0) [[unlikely]]
    LogCall("gemm", {{"a", a}, {"b", b}, {"out", out}});
  CheckTensor("a", a).On({}).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2);
  CheckTensor("b", b).On({}).Is(a.dtype()).Shape({-1, a.shape(1)});
  CheckTensor("out", out)
      .On({})
      .IsOneOf({a.dtype(), DType::kF32})
      .Shape({a.shape(0), b.shape(0)})
      .LastDimDense()
      .NoOverlap();
  const GemmProblem problem{a.dtype(), out.dtype(), a.shape(0), b.shape(0), a.shape(1)};
  const GemmOp::Entry pack = Choose<GemmOp>(problem, options.backend);
  if (out.num_elements() == 0) return;
  if (problem.k == 0) return FillZero(out);

  std::vector<char> dense_a;
  const bool a_has_dense_rows = a.stride(1) == 1 || problem.k == 1;
  if (!a_has_dense_rows) dense_a = Dense(a);
  std::vector<char> dense_b;
  if (!b.is_contiguous()) dense_b = Dense(b);
  const WeightView weight{dense_b.empty() ? b.data() : dense_b.data(), FormatOf(b.dtype()),
                          problem.n, problem.k};
  pack({.sources = std::span(&weight, 1)})
      ->Run({.x = a_has_dense_rows ? a.data() : dense_a.data(),
             .out = out.data(),
             .bias = nullptr,
             .residual = nullptr,
             .num_tokens = problem.m,
             .x_stride = a_has_dense_rows ? a.stride(0) : problem.k,
             .out_stride = out.stride(0),
             .residual_stride = 0,
             .dtype_x = a.dtype(),
             .dtype_out = out.dtype()});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("gemm", {{"out", out}});
}

}  // namespace flashinfer
