// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back: every candidate against float64 loops, odd values, and errors.
#include "flashinfer/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/quantize.h"
#include "support/candidates.h"
#include "support/cases/quantize.h"
#include "support/checks/quantize.h"
#include "support/compare.h"
#include "support/host_tensor.h"
#include "support/narrow_values.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class QuantizeCaseTest : public ::testing::TestWithParam<QuantizeCase> {};

TEST_P(QuantizeCaseTest, EveryCandidateMatchesTheOracleAndComesBack) {
  ExpectCaseHolds(CheckQuantize, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, QuantizeCaseTest, ::testing::ValuesIn(QuantizeCases()));

TEST(Quantize, ZerosInfinitiesAndNanSpoilNoNeighbour) {
  for (DType dtype_q : {DType::kE4M3, DType::kE5M2, DType::kI8}) {
    const double largest = NarrowValues(dtype_q).largest();
    const QuantizeProblem problem{.dtype = DType::kF32, .dtype_q = dtype_q};
    for (const std::string& candidate : AcceptingCandidates<QuantizeOp>(problem)) {
      SCOPED_TRACE(candidate);
      HostTensor x(DType::kF32, {3, 4});
      x.FillWith({0, 0, -0.0, 0, kInfinity, 2, -kInfinity, -1, kNan, 2, kNan, 0});
      HostTensor q(dtype_q, {3, 4});
      HostTensor scales(DType::kF32, {3, 1});
      Quantize(x, q, scales, {.backend = Backend(candidate)});
      EXPECT_EQ(scales.At({0, 0}), static_cast<double>(1e-10f));
      EXPECT_FLOAT_EQ(static_cast<float>(scales.At({1, 0})), static_cast<float>(2 / largest));
      EXPECT_EQ(scales.At({2, 0}), scales.At({1, 0}));
      for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(q.At({0, i}), 0);
      EXPECT_EQ(q.At({1, 0}), largest);
      EXPECT_EQ(q.At({1, 1}), largest);
      EXPECT_EQ(q.At({1, 2}), dtype_q == DType::kI8 ? -128 : -largest);
      EXPECT_EQ(q.At({2, 1}), largest);
      EXPECT_EQ(q.At({2, 3}), 0);
      for (int64_t i : {0, 2}) {
        if (dtype_q == DType::kI8) {
          EXPECT_EQ(q.At({2, i}), 0);
        } else {
          EXPECT_TRUE(std::isnan(q.At({2, i})));
        }
      }
    }
  }
}

TEST(Quantize, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor x(DType::kBF16, {2, 8});
  HostTensor q(DType::kE4M3, {2, 8});
  HostTensor u8(DType::kU8, {2, 8});
  HostTensor scales(DType::kF32, {2, 3});
  HostTensor one(DType::kF32, {1});
  EXPECT_THAT([&] { Quantize(x, u8, one); },
              ThrowsMessage<Error>("q: dtype is u8, accepted: e4m3, e5m2, i8"));
  EXPECT_THAT([&] { Quantize(x, q, scales); },
              ThrowsMessage<Error>(
                  "scales: has 3 groups a row, accepted: 1 or more that divide hidden_size 8"));
  EXPECT_THAT([&] { Quantize(x, q, x); },
              ThrowsMessage<Error>("scales: dtype is bf16, accepted: f32"));
  EXPECT_THAT([&] { Quantize(x, q, one, {.min_scale = 0.0f}); },
              ThrowsMessage<Error>("min_scale: is 0, expected more than 0"));
  EXPECT_THAT([&] { Dequantize(q, one, u8); },
              ThrowsMessage<Error>("out: dtype is u8, accepted: f32, f16, bf16"));
  EXPECT_THAT([&] { Dequantize(q, scales, x); }, ThrowsMessage<Error>(HasSubstr("3 groups a row")));
}

}  // namespace
}  // namespace flashinfer::test
