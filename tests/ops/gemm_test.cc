// SPDX-License-Identifier: Apache-2.0
// Dense matrix products: every candidate against a float64 loop.
#include "ops/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/candidates.h"
#include "support/cases/gemm.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

/// [rows, cols], or [batch_size, rows, cols].
HostTensor Matrix(DType dtype, int64_t batch_size, Dims shape, bool is_transposed,
                  int64_t padding) {
  const int64_t row_stride = is_transposed ? 1 : shape[1] + padding;
  const int64_t col_stride = is_transposed ? shape[0] + padding : 1;
  if (batch_size == 0) return {dtype, shape, {row_stride, col_stride}};
  const int64_t step = std::max(shape[0] * row_stride, shape[1] * col_stride) + padding;
  return {dtype, {batch_size, shape[0], shape[1]}, {step, row_stride, col_stride}};
}

double At(const HostTensor& matrix, int64_t batch, int64_t i, int64_t j) {
  return matrix.view().rank() == 3 ? matrix.At({batch, i, j}) : matrix.At({i, j});
}

class GemmCaseTest : public ::testing::TestWithParam<GemmCase> {};

TEST_P(GemmCaseTest, EveryCandidateMatchesTheOracle) {
  const GemmCase& c = GetParam();
  std::mt19937_64 rng(61);
  HostTensor a = Matrix(c.dtype_a, c.batch_size, {c.m, c.k}, c.a_is_transposed, c.padding);
  HostTensor b = Matrix(c.dtype_b, c.batch_size, {c.n, c.k}, c.b_is_transposed, c.padding);
  a.FillNormal(rng);
  b.FillNormal(rng, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, c.k))));
  std::vector<double> expected;
  for (int64_t batch = 0; batch < std::max<int64_t>(1, c.batch_size); ++batch) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.k; ++k) sum += At(a, batch, i, k) * At(b, batch, j, k);
        expected.push_back(sum * c.a_scale * c.b_scale);
      }
    }
  }
  for (const std::string& candidate :
       AcceptingCandidates<GemmOp>({c.dtype_a, c.dtype_b, c.dtype_out, c.m, c.n, c.k})) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor out = Matrix(c.dtype_out, c.batch_size, {c.m, c.n}, false, c.padding);
    Gemm(a, b, out, {.backend = Backend(candidate), .a_scale = c.a_scale, .b_scale = c.b_scale});
    EXPECT_TRUE(AllNear(out, expected, ToleranceOf(c.dtype_out, c.k)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, GemmCaseTest, ::testing::ValuesIn(GemmCases()));

TEST(Gemm, ScalesAsTensors) {
  HostTensor a(DType::kE4M3, {1, 2});
  HostTensor b(DType::kE5M2, {1, 2});
  a.FillWith({1.5, 448});
  b.FillWith({-2, 0.25});
  HostTensor a_scale(DType::kF32, {1});
  a_scale.FillWith({0.125});
  HostTensor out(DType::kF32, {1, 1});
  Gemm(a, b, out, {.a_scale = 9, .b_scale = 2, .a_scale_tensor = a_scale});
  EXPECT_EQ(out.At({0, 0}), 109 * 0.25);
}

TEST(Gemm, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor a(DType::kBF16, {2, 8});
  HostTensor b(DType::kBF16, {3, 9});
  HostTensor f32(DType::kF32, {3, 8});
  HostTensor fp8(DType::kE4M3, {2, 8});
  HostTensor out(DType::kBF16, {2, 3});
  HostTensor two(DType::kF32, {2});
  EXPECT_THAT([&] { Gemm(a, b, out); },
              ThrowsMessage<Error>("b: shape is [3, 9], expected [any, 8]"));
  EXPECT_THAT([&] { Gemm(a, f32, out); }, ThrowsMessage<Error>("b: dtype is f32, accepted: bf16"));
  EXPECT_THAT([&] { Gemm(fp8, f32, out); },
              ThrowsMessage<Error>("b: dtype is f32, accepted: e4m3, e5m2"));
  EXPECT_THAT([&] { Gemm(fp8, fp8, out); },
              ThrowsMessage<Error>("out: shape is [2, 3], expected [2, 2]"));
  HostTensor square(DType::kBF16, {2, 2});
  EXPECT_THAT([&] { Gemm(fp8, fp8, square, {.b_scale = NAN}); },
              ThrowsMessage<Error>("b_scale: is nan, accepted: finite numbers"));
  EXPECT_THAT([&] { Gemm(fp8, fp8, square, {.a_scale_tensor = two}); },
              ThrowsMessage<Error>("a_scale_tensor: shape is [2], expected one element"));
}

}  // namespace
}  // namespace flashinfer::test
