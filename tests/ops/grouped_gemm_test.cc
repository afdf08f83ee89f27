// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows: every candidate against a float64 loop; padding, NaN, errors.
#include "ops/grouped_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/cases/grouped_gemm.h"
#include "support/checks/grouped_gemm.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class GroupedGemmTest : public ::testing::TestWithParam<GroupedGemmCase> {};

TEST_P(GroupedGemmTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckGroupedGemm, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, GroupedGemmTest, ::testing::ValuesIn(GroupedGemmCases()));

void ExpectRight(const GroupedGemmCase& c, const std::vector<int64_t>& lengths,
                 std::mt19937_64& rng) {
  const GroupedGemmCall call(c, lengths, rng);
  const HostTensor out = call.MakeOut();
  call.Run(out);
  EXPECT_EQ(call.Mismatch(out), "");
}

TEST(GroupedGemm, EmptyGroupsAtEveryPlace) {
  std::mt19937_64 rng(3);
  const std::vector<std::vector<int64_t>> batches{{3, 0, 5, 0, 1}, {0, 0, 7}, {0, 0, 0}};
  for (const std::vector<int64_t>& lengths : batches) {
    GroupedGemmCase c{.num_groups = static_cast<int64_t>(lengths.size())};
    ExpectRight(c, lengths, rng);
  }
  ExpectRight({.dtype_a = DType::kE4M3, .dtype_b = DType::kE4M3, .has_scales = true},
              {200, 0, 56, 192}, rng);
  ExpectRight({.form = RowForm::kMasked, .num_rows = 64}, {0, 1, 63, 64}, rng);
}

TEST(GroupedGemm, NanOfAGroupStaysThere) {
  std::mt19937_64 rng(5);
  for (RowForm form : {RowForm::kIndptr, RowForm::kByRow, RowForm::kMasked}) {
    GroupedGemmCall call({.form = form,
                          .dtype_a = DType::kE4M3,
                          .dtype_b = DType::kE4M3,
                          .num_groups = 3,
                          .has_scales = true},
                         {2, 5, 1}, rng);
    const HostTensor clean = call.MakeOut();
    call.Run(clean);
    call.b_scales.Set({0, 1, 0}, kNan);
    const HostTensor out = call.MakeOut();
    call.Run(out);
    for (int64_t row = 0; row < call.num_rows(); ++row) {
      if (call.GroupOf(row) < 0) continue;
      for (int64_t j = 0; j < call.c.n; ++j) {
        if (call.GroupOf(row) == 0 && j >= 128) {
          EXPECT_TRUE(std::isnan(call.At(out, row, j)));
        } else {
          EXPECT_EQ(call.At(out, row, j), call.At(clean, row, j));
        }
      }
    }
  }
}

TEST(GroupedGemm, GroupsMayComeInAnyOrder) {
  std::mt19937_64 rng(7);
  HostTensor a(DType::kF32, {4, 8});
  HostTensor b(DType::kF32, {2, 3, 8});
  a.FillNormal(rng);
  b.FillNormal(rng);
  HostTensor rows(DType::kI32, {4});
  rows.FillWith({1, 0, -1, 1});
  HostTensor out(DType::kF32, {4, 3});
  GroupedGemmByRow(a, b, rows, out);
  for (int64_t t : {0, 1, 3}) {
    for (int64_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < 8; ++i) sum += a.At({t, i}) * b.At({t == 1 ? 0 : 1, j, i});
      EXPECT_TRUE(Near(out.At({t, j}), sum, ToleranceOf(DType::kF32, 8)));
    }
  }
  EXPECT_TRUE(std::isnan(out.At({2, 0})));
}

TEST(GroupedGemm, ErrorsNameArgumentValueAndWhatIsAccepted) {
  const HostTensor a(DType::kE4M3, {2, 3, 8});
  const HostTensor b(DType::kE4M3, {2, 4, 8});
  const HostTensor out(DType::kF32, {2, 3, 4});
  const HostTensor inner(DType::kF32, {2, 3, 4}, {1, 8, 2});  // the group innermost
  HostTensor counts(DType::kI32, {2});
  counts.FillWith({3, 4});
  const HostTensor scales_a(DType::kF32, {2, 3, 1});
  const HostTensor scales_b(DType::kF32, {2, 1, 1});
  EXPECT_THAT([&] { GroupedGemmMasked(a, b, counts, out); },
              ThrowsMessage<Error>("num_rows[1]: is 4, accepted: 0 to 3"));
  EXPECT_THAT([&] { GroupedGemmMasked(a, b, counts, inner); },
              ThrowsMessage<Error>(::testing::HasSubstr("out: ")));
  counts.FillWith({3, 0});
  GroupedGemmOptions options{.scales = {.a = scales_a}};
  EXPECT_THAT([&] { GroupedGemmMasked(a, b, counts, out, options); },
              ThrowsMessage<Error>("scales: b has none, expected both or neither"));
  options.scales.b = scales_b;
  options.scales.k_per_scale = 0;
  EXPECT_THAT([&] { GroupedGemmMasked(a, b, counts, out, options); },
              ThrowsMessage<Error>("scales.k_per_scale: is 0, expected 1 or more"));
  options.scales.k_per_scale = 4;
  EXPECT_THAT([&] { GroupedGemmMasked(a, b, counts, out, options); },
              ThrowsMessage<Error>(::testing::HasSubstr("scales.a: ")));
  HostTensor rows(DType::kI32, {3});
  rows.FillWith({0, -2, 1});
  EXPECT_THAT([&] { GroupedGemmByRow(a.view()[0], b, rows, out.view()[0]); },
              ThrowsMessage<Error>("row_groups[1]: is -2, accepted: -1 to 1"));
}

}  // namespace
}  // namespace flashinfer::test
