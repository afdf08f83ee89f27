// SPDX-License-Identifier: Apache-2.0
// Dense matrix products: every candidate against a float64 loop.
#include "ops/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/candidates.h"
#include "support/cases/gemm.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

HostTensor Matrix(DType dtype, int64_t rows, int64_t cols, bool is_transposed, int64_t padding) {
  if (is_transposed) return {dtype, {rows, cols}, {1, rows + padding}};
  return {dtype, {rows, cols}, {cols + padding, 1}};
}

class GemmCaseTest : public ::testing::TestWithParam<GemmCase> {};

TEST_P(GemmCaseTest, EveryCandidateMatchesTheOracle) {
  const GemmCase& c = GetParam();
  std::mt19937_64 rng(61);
  HostTensor a = Matrix(c.dtype, c.m, c.k, c.a_is_transposed, c.padding);
  HostTensor b = Matrix(c.dtype, c.n, c.k, c.b_is_transposed, c.padding);
  a.FillNormal(rng);
  b.FillNormal(rng, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, c.k))));
  std::vector<double> expected;
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < c.k; ++k) sum += a.At({i, k}) * b.At({j, k});
      expected.push_back(sum);
    }
  }
  for (const std::string& candidate :
       AcceptingCandidates<GemmOp>({c.dtype, c.dtype_out, c.m, c.n, c.k})) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor out = Matrix(c.dtype_out, c.m, c.n, false, c.padding);
    Gemm(a, b, out, {.backend = Backend(candidate)});
    EXPECT_TRUE(AllNear(out, expected, ToleranceOf(c.dtype_out, c.k)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, GemmCaseTest, ::testing::ValuesIn(GemmCases()));

TEST(Gemm, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor a(DType::kBF16, {2, 8});
  HostTensor b(DType::kBF16, {3, 9});
  HostTensor f32(DType::kF32, {3, 8});
  HostTensor out(DType::kBF16, {2, 3});
  EXPECT_THAT([&] { Gemm(a, b, out); },
              ThrowsMessage<Error>("b: shape is [3, 9], expected [any, 8]"));
  EXPECT_THAT([&] { Gemm(a, f32, out); }, ThrowsMessage<Error>("b: dtype is f32, accepted: bf16"));
}

}  // namespace
}  // namespace flashinfer::test
