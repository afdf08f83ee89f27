// SPDX-License-Identifier: Apache-2.0
// Products of row segments: every candidate against a float64 loop; empty segments, NaN, errors.
#include "ops/segment_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/candidates.h"
#include "support/cases/segment_gemm.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

/// Lengths of the segments, the first empty, and each segment's weight.
struct Segments {
  HostTensor indptr, weights;
  Segments(const SegmentGemmCase& c, std::mt19937_64& rng)
      : indptr(DType::kI64, {c.num_segments + 1}), weights(DType::kI32, {c.num_segments}) {
    indptr.Set({0}, 0);
    for (int64_t i = 0; i < c.num_segments; ++i) {
      const int64_t length =
          i % 3 == 0 ? 0 : static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * c.num_rows + 1));
      indptr.Set({i + 1}, indptr.At({i}) + static_cast<double>(length));
      weights.Set({i}, c.has_weight_indices
                           ? static_cast<double>(rng() % static_cast<uint64_t>(c.num_weights))
                           : static_cast<double>(i));
    }
  }
};

class SegmentGemmTest : public ::testing::TestWithParam<SegmentGemmCase> {};

TEST_P(SegmentGemmTest, EveryCandidateMatchesTheOracle) {
  const SegmentGemmCase& c = GetParam();
  std::mt19937_64 rng(67);
  const Segments segments(c, rng);
  const auto num_rows = static_cast<int64_t>(segments.indptr.At({c.num_segments}));
  HostTensor x(c.dtype, {num_rows, c.d_in}, {c.d_in + 3, 1});
  const int64_t step = c.d_out * c.d_in + 5;
  HostTensor weights(c.dtype, {c.num_weights, c.d_out, c.d_in},
                     c.weights_are_transposed ? Dims{step, 1, c.d_out} : Dims{step, c.d_in, 1});
  x.FillNormal(rng);
  weights.FillNormal(rng, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, c.d_in))));
  std::vector<double> expected;
  for (int64_t i = 0; i < c.num_segments; ++i) {
    const auto w = static_cast<int64_t>(segments.weights.At({i}));
    for (auto t = static_cast<int64_t>(segments.indptr.At({i}));
         t < static_cast<int64_t>(segments.indptr.At({i + 1})); ++t) {
      for (int64_t j = 0; j < c.d_out; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.d_in; ++k) sum += x.At({t, k}) * weights.At({w, j, k});
        expected.push_back(sum);
      }
    }
  }
  for (const std::string& candidate :
       AcceptingCandidates<SegmentGemmOp>({c.dtype, c.dtype_out, c.d_in, c.d_out})) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor out(c.dtype_out, {num_rows, c.d_out}, {c.d_out + 1, 1}, 2);
    SegmentGemmOptions options{.backend = Backend(candidate)};
    if (c.has_weight_indices) options.weight_indices = segments.weights;
    SegmentGemm(x, weights, segments.indptr, out, options);
    EXPECT_TRUE(AllNear(out, expected, ToleranceOf(c.dtype_out, c.d_in)));
  }
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
