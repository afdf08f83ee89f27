// SPDX-License-Identifier: Apache-2.0
// Products of row segments: every candidate against a float64 loop; empty segments, NaN, errors.
#include "ops/segment_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/cases/segment_gemm.h"
#include "support/checks/segment_gemm.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

class SegmentGemmTest : public ::testing::TestWithParam<SegmentGemmCase> {};

TEST_P(SegmentGemmTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckSegmentGemm, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, SegmentGemmTest, ::testing::ValuesIn(SegmentGemmCases()));

TEST(SegmentGemm, RowsDependOnTheirOwnWeightAlone) {
  std::mt19937_64 rng(5);
  HostTensor x(DType::kBF16, {9, 128});
  HostTensor weights(DType::kBF16, {5, 192, 128});
  x.FillNormal(rng);
  weights.FillNormal(rng);
  HostTensor indptr(DType::kI32, {6});
  indptr.FillWith({0, 3, 3, 8, 8, 9});
  HostTensor clean(DType::kBF16, {9, 192});
  SegmentGemm(x, weights, indptr, clean);
  weights.Set({0, 17, 5}, std::numeric_limits<double>::quiet_NaN());
  weights.Set({1, 0, 0}, std::numeric_limits<double>::quiet_NaN());  // of an empty segment
  HostTensor out(DType::kBF16, {9, 192});
  SegmentGemm(x, weights, indptr, out);
  for (int64_t t = 0; t < 9; ++t) {
    for (int64_t j = 0; j < 192; ++j) {
      if (t < 3 && j == 17) {
        EXPECT_TRUE(std::isnan(out.At({t, j})));
      } else {
        EXPECT_EQ(out.At({t, j}), clean.At({t, j}));
      }
    }
  }
}

TEST(SegmentGemm, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor x(DType::kF32, {3, 8});
  HostTensor weights(DType::kF32, {2, 4, 8});
  HostTensor out(DType::kF32, {3, 4});
  HostTensor indptr(DType::kI32, {3});
  HostTensor indices(DType::kI32, {2});
  indices.FillWith({0, 2});
  const auto run = [&](std::initializer_list<double> values, bool has_indices) {
    return [&, values, has_indices] {
      indptr.FillWith(values);
      SegmentGemmOptions options;
      if (has_indices) options.weight_indices = indices;
      SegmentGemm(x, weights, indptr, out, options);
    };
  };
  EXPECT_THAT(run({0, 2, 2}, false), ThrowsMessage<Error>("indptr[2]: is 2, x has 3 rows"));
  EXPECT_THAT(run({0, 2, 1}, false), ThrowsMessage<Error>("indptr[2]: is 1, after 2"));
  EXPECT_THAT(run({1, 2, 3}, false), ThrowsMessage<Error>("indptr[0]: is 1, expected 0"));
  EXPECT_THAT(run({0, 2, 3}, true),
              ThrowsMessage<Error>("weight_indices[1]: is 2, accepted: 0 to 1"));
}

}  // namespace
}  // namespace flashinfer::test
