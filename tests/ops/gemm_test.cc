// SPDX-License-Identifier: Apache-2.0
// Dense matrix products: every candidate against a float64 loop.
#include "ops/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/cases/gemm.h"
#include "support/checks/gemm.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

class GemmCaseTest : public ::testing::TestWithParam<GemmCase> {};

TEST_P(GemmCaseTest, EveryCandidateMatchesTheOracle) { ExpectCaseHolds(CheckGemm, GetParam()); }

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
