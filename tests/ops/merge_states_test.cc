// SPDX-License-Identifier: Apache-2.0
// Merging many attention states: against float64, equal or differing numbers of states, in place,
// and the parts of an attention against the whole.
#include "ops/merge_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/fields.h"
#include "flashinfer/attention/prefill.h"
#include "support/attention_oracle.h"
#include "support/cases/attention.h"
#include "support/cases/merge_states.h"
#include "support/checks/merge_states.h"
#include "support/compare.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

class MergeStatesCaseTest : public ::testing::TestWithParam<MergeStatesCase> {};

TEST_P(MergeStatesCaseTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckMergeStates, GetParam());
}

TEST_P(MergeStatesCaseTest, TokensMayHaveDifferentNumbersOfStates) {
  ExpectCaseHolds(CheckVariableLengthMergeStates, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, MergeStatesCaseTest, ::testing::ValuesIn(MergeStatesCases()));

/// Attention over 4096 keys in parts, merged, against the attention over all of them.
TEST(MergeStates, PartsOfAnAttentionGiveTheWhole) {
  constexpr int32_t kKeys = 4096;
  AttentionProblem p = AttentionOf(DType::kBF16, DType::kBF16, DType::kF32, 4, 2, 64, 64, 1);
  const AttentionCase c{p, {3}, {kKeys}};
  const AttentionInputs in(c, 62);
  const AttentionResult expected = AttentionOracle(c, in);
  const std::vector<std::vector<int32_t>> partings{
      {0, 1, kKeys},    {0, 17, kKeys}, {0, 2048, kKeys},
      {0, 4095, kKeys}, {0, 0, kKeys},  {0, 512, 1024, 1536, 2048, 2560, 3072, 3584, kKeys}};
  for (const std::vector<int32_t>& ends : partings) {
    const int64_t num_parts = static_cast<int64_t>(ends.size()) - 1;
    const HostTensor v(DType::kF32, {num_parts, 3, 4, 64});
    const HostTensor s(DType::kF32, {num_parts, 3, 4});
    Workspace workspace;
    for (int64_t i = 0; i < num_parts; ++i) {
      const int32_t begin = ends[static_cast<size_t>(i)];
      const std::vector<int32_t> indptr{0, ends[static_cast<size_t>(i) + 1] - begin};
      BatchPrefill prefill(workspace);
      prefill.Plan(p, in.qo_indptr_view(),
                   {{indptr.data(), DType::kI32, {2}},
                    {in.indices.data() + begin, DType::kI32, {indptr[1]}},
                    in.pages().last_page_len});
      prefill.Run(in.q, in.cache(), v.view()[i], s.view()[i]);
    }
    const TensorView& view = v;
    const TensorView& scores = s;
    MergeStates(
        {view.data(),
         DType::kF32,
         {3, num_parts, 4, 64},
         {view.stride(1), view.stride(0), view.stride(2), 1}},
        {scores.data(), DType::kF32, {3, num_parts, 4}, {scores.stride(1), scores.stride(0), 1}},
        in.out, in.lse);
    EXPECT_TRUE(AllNear(in.out, expected.out, ToleranceOf(DType::kBF16)));
    EXPECT_TRUE(AllNear(in.lse, expected.lse, LseTolerance()));
  }
}

TEST(MergeStates, ManyRows) {
  HostTensor v(DType::kF16, {70000, 2, 1, 8});
  HostTensor s(DType::kF32, {70000, 2, 1});
  s.Fill(0);
  v.Fill(1);
  for (int64_t t = 0; t < 70000; ++t) {
    for (int64_t d = 0; d < 8; ++d) v.Set({t, 1, 0, d}, 3);
  }
  HostTensor merged(DType::kF16, {70000, 1, 8});
  HostTensor lse(DType::kF32, {70000, 1});
  MergeStates(v, s, merged, lse);
  for (double x : merged.Values()) ASSERT_EQ(x, 2.0);
  for (double x : lse.Values()) ASSERT_EQ(x, 1.0);
}

TEST(MergeStates, ErrorsNameArgumentValueAndWhatIsAccepted) {
  const HostTensor v(DType::kF16, {2, 3, 4, 8});
  const HostTensor s(DType::kF32, {2, 3, 4});
  const HostTensor v_merged(DType::kF16, {2, 4, 8});
  const HostTensor s_merged(DType::kF32, {2, 4});
  EXPECT_THAT([&] { MergeStates(v, s, v_merged, s); },
              ThrowsMessage<Error>("s_merged: shape is [2, 3, 4], expected [2, 4]"));
  EXPECT_THAT([&] { MergeStates(v, s_merged, v_merged, s_merged); },
              ThrowsMessage<Error>("s: shape is [2, 4], expected [2, 3, 4]"));
  const std::vector<int32_t> falling{0, 2, 1};
  const std::vector<int32_t> far{0, 1, 4};
  const auto merge = [&](const std::vector<int32_t>& indptr) {
    return [&] {
      VariableLengthMergeStates(v.view()[0], s.view()[0], {indptr.data(), DType::kI32, {3}},
                                v_merged, s_merged);
    };
  };
  EXPECT_THAT(merge(falling), ThrowsMessage<Error>("indptr[2]: is 1, less than 2 before it"));
  EXPECT_THAT(merge(far), ThrowsMessage<Error>("indptr[2]: is 4, v has 3 states"));
  for (double x : v_merged.Values()) EXPECT_TRUE(std::isnan(x));
}

}  // namespace
}  // namespace flashinfer::test
