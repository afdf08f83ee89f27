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
#include "support/candidates.h"
#include "support/cases/attention.h"
#include "support/cases/merge_states.h"
#include "support/compare.h"
#include "support/device.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// States [num_tokens, num_states, num_heads, head_dim] with gaps; some are empty and hold
/// anything, and one head of the first token has no state that is not.
struct States {
  explicit States(const MergeStatesCase& c)
      : v(c.dtype, {c.num_tokens, c.num_states, c.num_heads, c.head_dim},
          {c.num_states * (c.num_heads * c.head_dim + 5) + 3, c.num_heads * c.head_dim + 5,
           c.head_dim, 1}),
        s(DType::kF32, {c.num_tokens, c.num_states, c.num_heads}) {
    std::mt19937_64 rng(61);
    v.FillNormal(rng);
    s.FillNormal(rng, 4);
    for (int64_t t = 0; t < c.num_tokens; ++t) {
      for (int64_t k = t % 5; k < c.num_states; k += 5) {
        Empty(t, k, 0, k % 2 == 0 ? std::nan("") : kInf);
      }
    }
    if (c.num_tokens < 4) return;
    for (int64_t k = 0; k < c.num_states; ++k) {
      Empty(0, k, c.num_heads - 1, std::nan(""));
      s.Set({3, k, c.num_heads - 1}, -66855.0 - static_cast<double>(k));
    }
  }
  void Empty(int64_t token, int64_t state, int64_t head, double value) {
    s.Set({token, state, head}, -kInf);
    v.Set({token, state, head, 0}, value);
  }
  HostTensor v;
  HostTensor s;
};

/// States begin … end of one row.
struct Range {
  int64_t token;
  int64_t head;
  int64_t begin;
  int64_t end;
};

/// The merged values, and the merged score as the last one.
std::vector<double> Oracle(const States& in, const Range& r) {
  const int64_t dim = in.v.view().shape(3);
  double max = -kInf;
  for (int64_t k = r.begin; k < r.end; ++k) max = std::max(max, in.s.At({r.token, k, r.head}));
  std::vector<double> merged(static_cast<size_t>(dim) + 1, 0.0);
  merged.back() = -kInf;
  if (max == -kInf) return merged;
  double sum = 0;
  for (int64_t k = r.begin; k < r.end; ++k) {
    const double weight = std::exp2(in.s.At({r.token, k, r.head}) - max);
    if (weight == 0) continue;
    sum += weight;
    for (int64_t d = 0; d < dim; ++d) {
      merged[static_cast<size_t>(d)] += weight * in.v.At({r.token, k, r.head, d});
    }
  }
  for (double& x : merged) x /= sum;
  merged.back() = max + std::log2(sum);
  return merged;
}

void ExpectRow(const HostTensor& v, const HostTensor& s, int64_t token, int64_t head,
               const std::vector<double>& expected) {
  const Tolerance tolerance = ToleranceOf(v.view().dtype(), 64);
  for (int64_t d = 0; d < v.view().shape(2); ++d) {
    const double x = v.At({token, head, d});
    ASSERT_TRUE(Near(x, expected[static_cast<size_t>(d)], tolerance))
        << "token " << token << " head " << head << " element " << d << ": " << x << ", expected "
        << expected[static_cast<size_t>(d)];
  }
  ASSERT_TRUE(Near(s.At({token, head}), expected.back(), LseTolerance()));
}

class MergeStatesCaseTest : public ::testing::TestWithParam<MergeStatesCase> {};

TEST_P(MergeStatesCaseTest, EveryCandidateMatchesTheOracle) {
  const MergeStatesCase& c = GetParam();
  for (const auto& [candidate, device] : CandidatesOnDevices<MergeStatesOp>({c.dtype})) {
    DeviceCopies on(device);
    SCOPED_TRACE(FieldsText(candidate, c));
    const States in(c);
    const HostTensor v(c.dtype, {c.num_tokens, c.num_heads, c.head_dim},
                       {c.num_heads * c.head_dim + 1, c.head_dim, 1});
    const HostTensor s(DType::kF32, {c.num_tokens, c.num_heads});
    MergeStates(on(in.v), on(in.s), on(v), on(s), Backend(candidate));
    on.Fetch();
    for (int64_t t = 0; t < c.num_tokens; ++t) {
      for (int64_t h = 0; h < c.num_heads; ++h) {
        ExpectRow(v, s, t, h, Oracle(in, {t, h, 0, c.num_states}));
      }
    }
    EXPECT_TRUE(PaddingIsUntouched(v));
    if (c.num_states == 0) continue;
    // Into the last state itself: the same values.
    const TensorView& all = in.v;
    const TensorView& scores = in.s;
    const int64_t last = c.num_states - 1;
    const TensorView last_v{all.data_as<char>() + last * all.stride(1) * SizeBytes(c.dtype),
                            c.dtype,
                            {c.num_tokens, c.num_heads, c.head_dim},
                            {all.stride(0), all.stride(2), 1}};
    const TensorView last_s{scores.data_as<float>() + last * scores.stride(1),
                            DType::kF32,
                            {c.num_tokens, c.num_heads},
                            {scores.stride(0), scores.stride(2)}};
    MergeStates(on(in.v), on(in.s), on(last_v), on(last_s), Backend(candidate));
    on.Fetch();
    for (int64_t t = 0; t < c.num_tokens; ++t) {
      for (int64_t h = 0; h < c.num_heads; ++h) {
        ASSERT_EQ(in.s.At({t, last, h}), s.At({t, h}));
        for (int64_t d = 0; d < c.head_dim; ++d) {
          ASSERT_EQ(in.v.At({t, last, h, d}), v.At({t, h, d}));
        }
      }
    }
  }
}

TEST_P(MergeStatesCaseTest, TokensMayHaveDifferentNumbersOfStates) {
  const MergeStatesCase& c = GetParam();
  if (c.num_tokens == 0) return;
  // All states belong to one token of `States`, which are then shared out among four.
  const MergeStatesCase one{c.dtype, 1, c.num_states, c.num_heads, c.head_dim};
  const int32_t n = static_cast<int32_t>(c.num_states);
  const std::vector<int32_t> indptr{0, n / 2, n / 2, n - n / 3, n};
  for (const auto& [candidate, device] : CandidatesOnDevices<MergeStatesOp>({c.dtype})) {
    DeviceCopies on(device);
    SCOPED_TRACE(FieldsText(candidate, c));
    const States in(one);
    const HostTensor v(c.dtype, {4, c.num_heads, c.head_dim});
    const HostTensor s(DType::kF32, {4, c.num_heads});
    VariableLengthMergeStates(on(in.v)[0], on(in.s)[0],
                              on(TensorView(indptr.data(), DType::kI32, {5})), on(v), on(s),
                              Backend(candidate));
    on.Fetch();
    for (int64_t t = 0; t < 4; ++t) {
      for (int64_t h = 0; h < c.num_heads; ++h) {
        ExpectRow(
            v, s, t, h,
            Oracle(in, {0, h, indptr[static_cast<size_t>(t)], indptr[static_cast<size_t>(t) + 1]}));
      }
    }
  }
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
