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
#include "support/compare.h"
#include "support/host_tensor.h"
#include "support/narrow_values.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

HostTensor MakeRows(const QuantizeCase& c, DType dtype) {
  return {dtype, {c.num_rows, c.hidden_size}, {c.hidden_size + c.row_padding, 1}};
}

HostTensor MakeScales(const QuantizeCase& c) {
  if (c.group_size == 0) return {DType::kF32, {1}};
  const int64_t num_groups = c.hidden_size / c.group_size;
  if (c.column_major) return {DType::kF32, {c.num_rows, num_groups}, {1, c.num_rows + 3}};
  return {DType::kF32, {c.num_rows, num_groups}};
}

double ScaleAt(const QuantizeCase& c, const HostTensor& scales, int64_t row, int64_t column) {
  return c.group_size == 0 ? scales.At({0}) : scales.At({row, column / c.group_size});
}

/// Largest finite |x| of the group, or tensor, that an element belongs to.
double AmaxAt(const QuantizeCase& c, const HostTensor& x, int64_t row, int64_t column) {
  const bool whole = c.group_size == 0;
  const int64_t first = whole ? 0 : column / c.group_size * c.group_size;
  double amax = 0;
  for (int64_t r = whole ? 0 : row; r < (whole ? c.num_rows : row + 1); ++r) {
    for (int64_t i = first; i < (whole ? c.hidden_size : first + c.group_size); ++i) {
      const double size = std::abs(x.At({r, i}));
      if (std::isfinite(size)) amax = std::max(amax, size);
    }
  }
  return amax;
}

void ExpectScalesAreRight(const QuantizeCase& c, const HostTensor& x, const HostTensor& scales) {
  const double largest = NarrowValues(c.dtype_q).largest();
  const int64_t step = c.group_size == 0 ? c.hidden_size : c.group_size;
  for (int64_t row = 0; row < (c.group_size == 0 ? 1 : c.num_rows); ++row) {
    for (int64_t column = 0; column < c.hidden_size; column += step) {
      double right = std::max(AmaxAt(c, x, row, column) / largest, 1e-10);
      if (c.power_of_two) right = std::exp2(std::ceil(std::log2(right)));
      ASSERT_NEAR(ScaleAt(c, scales, row, column), right, 2e-7 * right) << row << " " << column;
    }
  }
}

void ExpectNearestCodes(const QuantizeCase& c, const HostTensor& x, const HostTensor& q,
                        const HostTensor& scales) {
  const NarrowValues values(c.dtype_q);
  for (int64_t row = 0; row < c.num_rows; ++row) {
    for (int64_t i = 0; i < c.hidden_size; ++i) {
      const double exact = x.At({row, i}) / ScaleAt(c, scales, row, i);
      ASSERT_TRUE(values.IsNearest(q.At({row, i}), exact)) << q.At({row, i}) << " for " << exact;
    }
  }
}

class QuantizeCaseTest : public ::testing::TestWithParam<QuantizeCase> {};

TEST_P(QuantizeCaseTest, EveryCandidateMatchesTheOracleAndComesBack) {
  const QuantizeCase& c = GetParam();
  std::mt19937_64 rng(19);
  for (const std::string& candidate : AcceptingCandidates<QuantizeOp>(ProblemOf(c))) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor x = MakeRows(c, c.dtype);
    x.FillNormal(rng, 3.0);
    HostTensor q = MakeRows(c, c.dtype_q);
    HostTensor scales = MakeScales(c);
    if (!c.dynamic) scales.FillUniform(rng, 1e-3, 0.1);
    Quantize(x, q, scales,
             {.dynamic = c.dynamic, .power_of_two = c.power_of_two, .backend = Backend(candidate)});
    if (c.dynamic) ExpectScalesAreRight(c, x, scales);
    ExpectNearestCodes(c, x, q, scales);
    EXPECT_TRUE(PaddingIsUntouched(q));
    EXPECT_TRUE(PaddingIsUntouched(scales));

    HostTensor back = MakeRows(c, c.dtype);
    Dequantize(q, scales, back, Backend(candidate));
    std::vector<double> expected = q.Values();
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      expected[i] *= ScaleAt(c, scales, at / c.hidden_size, at % c.hidden_size);
    }
    EXPECT_TRUE(AllNear(back, expected, ToleranceOf(c.dtype)));
  }
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
