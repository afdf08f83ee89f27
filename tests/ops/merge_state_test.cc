// SPDX-License-Identifier: Apache-2.0
// Merging attention states: against float64, neutral empty states, in place, many rows.
#include "ops/merge_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/candidates.h"
#include "support/checks/merge_state.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

class MergeStateTest : public ::testing::TestWithParam<DType> {};

TEST_P(MergeStateTest, InPlaceMergesTheTokensOfTheMask) {
  for (const std::string& candidate : AcceptingCandidates<MergeStateOp>({GetParam()})) {
    SCOPED_TRACE(candidate);
    std::mt19937_64 rng(52);
    State state(GetParam(), 9, 3, 72);
    State other(GetParam(), 9, 3, 72);
    for (State* s : {&state, &other}) {
      s->v.FillNormal(rng);
      s->s.FillNormal(rng, 4);
    }
    state.s.Set({0, 0}, -kInf);
    state.v.Set({0, 0, 1}, std::nan(""));
    State merged(GetParam(), 9, 3, 72);
    MergeState(state.v, state.s, other.v, other.s, merged.v, merged.s, Backend(candidate));
    const std::vector<double> v = state.v.Values();
    const std::vector<double> s = state.s.Values();
    HostTensor mask(DType::kBool, {9}, {2});
    for (int64_t t = 0; t < 9; ++t) mask.Set({t}, t % 3 == 0 ? 1 : 0);
    MergeStateInPlace(state.v, state.s, other.v, other.s, mask, Backend(candidate));
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t h = 0; h < 3; ++h) {
        const size_t at = static_cast<size_t>(t * 3 + h);
        EXPECT_EQ(state.s.At({t, h}), t % 3 == 0 ? merged.s.At({t, h}) : s[at]);
        for (int64_t d = 0; d < 72; ++d) {
          const double expected =
              t % 3 == 0 ? merged.v.At({t, h, d}) : v[at * 72 + static_cast<size_t>(d)];
          EXPECT_EQ(state.v.At({t, h, d}), expected);
        }
      }
    }
    for (int64_t t = 0; t < 9; ++t) mask.Set({t}, t % 3 == 0 ? 0 : 1);
    MergeStateInPlace(state.v, state.s, other.v, other.s, mask, Backend(candidate));
    EXPECT_EQ(state.v.bytes(), merged.v.bytes());
    EXPECT_EQ(state.s.bytes(), merged.s.bytes());
  }
}

class MergeStateCaseTest : public ::testing::TestWithParam<MergeStateCase> {};

TEST_P(MergeStateCaseTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckMergeState, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, MergeStateCaseTest, ::testing::ValuesIn(MergeStateCases()));
INSTANTIATE_TEST_SUITE_P(DTypes, MergeStateTest,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16));

TEST(MergeState, ManyRows) {
  State a(DType::kF16, 70000, 1, 8);
  State b(DType::kF16, 70000, 1, 8);
  State merged(DType::kF16, 70000, 1, 8);
  a.v.Fill(1);
  b.v.Fill(3);
  a.s.Fill(0);
  b.s.Fill(0);
  MergeState(a.v, a.s, b.v, b.s, merged.v, merged.s);
  for (double x : merged.v.Values()) ASSERT_EQ(x, 2.0);
  for (double x : merged.s.Values()) ASSERT_EQ(x, 1.0);
}

TEST(MergeState, ErrorsNameArgumentValueAndWhatIsAccepted) {
  State a(DType::kF16, 2, 3, 8);
  State b(DType::kF16, 2, 4, 8);
  EXPECT_THAT([&] { MergeState(a.v, a.s, b.v, b.s, a.v, a.s); },
              ::testing::ThrowsMessage<Error>("v_b: shape is [2, 4, 8], expected [2, 3, 8]"));
  EXPECT_THAT([&] { MergeState(a.v, b.s, a.v, a.s, a.v, a.s); },
              ::testing::ThrowsMessage<Error>("s_a: shape is [2, 4], expected [2, 3]"));
  const HostTensor mask(DType::kBool, {3});
  EXPECT_THAT([&] { MergeStateInPlace(a.v, a.s, a.v, a.s, mask); },
              ::testing::ThrowsMessage<Error>("mask: shape is [3], expected [2]"));
}

}  // namespace
}  // namespace flashinfer::test
