// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling: every candidate against a loop in float64 with the same uniforms, the
// distribution of the tokens, odd rows, errors.
#include "ops/chain_speculative.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/philox.h"
#include "support/candidates.h"
#include "support/cases/chain_speculative.h"
#include "support/host_tensor.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

constexpr int64_t kSeed = 987654321;

/// A draft model's and a target model's distributions, and drafted tokens.
struct Inputs {
  HostTensor draft, tokens, target;
  explicit Inputs(const ChainSpeculativeCase& c)
      : draft(DType::kF32, {c.num_rows, c.num_drafts, c.vocab_size}),
        tokens(DType::kI32, {c.num_rows, c.num_drafts}),
        target(DType::kF32, {c.num_rows, c.num_drafts + 1, c.vocab_size}) {
    std::mt19937_64 rng(17);
    std::exponential_distribution<double> weight(1);
    std::vector<double> mine(static_cast<size_t>(c.vocab_size)), other(mine.size());
    for (int64_t row = 0; row < c.num_rows; ++row) {
      for (int64_t i = 0; i <= c.num_drafts; ++i) {
        for (double& w : mine) w = weight(rng);
        for (double& w : other) w = weight(rng);
        const double my_sum = std::accumulate(mine.begin(), mine.end(), 0.0);
        const double other_sum = std::accumulate(other.begin(), other.end(), 0.0);
        for (int64_t v = 0; v < c.vocab_size; ++v) {
          const double p = mine[static_cast<size_t>(v)] / my_sum;
          const double q = other[static_cast<size_t>(v)] / other_sum;
          if (i < c.num_drafts) draft.Set({row, i, v}, p);
          target.Set({row, i, v}, c.likeness * p + (1 - c.likeness) * q);
        }
        if (i == c.num_drafts) continue;
        std::discrete_distribution<int64_t> draw(mine.begin(), mine.end());
        tokens.Set({row, i}, static_cast<double>(draw(rng)));
      }
    }
  }
};

struct Expected {
  std::vector<double> tokens;
  int64_t num_accepted = 0;
  int64_t num_emitted = 0;
  bool is_close = false;
};

Expected Oracle(const Inputs& in, const ChainSpeculativeCase& c, int64_t row, int64_t offset) {
  const auto uniform = [&](int64_t position) {
    return PhiloxUniform(kSeed, static_cast<uint64_t>(row),
                         static_cast<uint64_t>(offset + position));
  };
  Expected e;
  e.num_emitted = c.num_drafts;
  for (int64_t i = 0; i < c.num_drafts; ++i) {
    const auto token = static_cast<int64_t>(in.tokens.At({row, i}));
    const double scaled = uniform(i) * in.draft.At({row, i, token});
    const bool accepts = scaled < in.target.At({row, i, token});
    e.num_accepted += accepts;
    if (!accepts && e.num_emitted == c.num_drafts) e.num_emitted = i;
  }
  for (int64_t i = 0; i < e.num_emitted; ++i) e.tokens.push_back(in.tokens.At({row, i}));
  std::vector<double> probs;
  double sum = 0;
  for (int64_t v = 0; v < c.vocab_size; ++v) {
    const double p = in.target.At({row, e.num_emitted, v});
    const double q = e.num_emitted < c.num_drafts ? in.draft.At({row, e.num_emitted, v}) : 0;
    probs.push_back(std::max(0.0, p - q));
    sum += probs.back();
  }
  if (sum == 0) {
    for (int64_t v = 0; v < c.vocab_size; ++v) {
      probs[static_cast<size_t>(v)] = in.target.At({row, e.num_emitted, v});
    }
  }
  e.tokens.push_back(static_cast<double>(DrawOracle(probs, std::vector<bool>(probs.size(), true),
                                                    uniform(c.num_drafts), 1e-5, &e.is_close)));
  e.tokens.resize(static_cast<size_t>(c.num_drafts) + 1, -1);
  return e;
}

class ChainSpeculativeTest : public ::testing::TestWithParam<ChainSpeculativeCase> {};

TEST_P(ChainSpeculativeTest, EveryCandidateMatchesTheOracle) {
  const ChainSpeculativeCase& c = GetParam();
  const Inputs in(c);
  std::vector<Expected> expected;
  expected.reserve(static_cast<size_t>(c.num_rows));
  for (int64_t row = 0; row < c.num_rows; ++row) expected.push_back(Oracle(in, c, row, 11));
  for (const std::string& candidate :
       AcceptingCandidates<ChainSpeculativeOp>({DType::kF32, c.vocab_size})) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor tokens(DType::kI32, {c.num_rows, c.num_drafts + 1}, {c.num_drafts + 3, 1});
    HostTensor num_accepted(DType::kI32, {c.num_rows});
    HostTensor num_emitted(DType::kI32, {c.num_rows});
    num_accepted.Fill(100);
    num_emitted.Fill(1000);
    ChainSpeculativeSampling(in.draft, in.tokens, in.target, {tokens, num_accepted, num_emitted},
                             {.seed = kSeed, .offset = int64_t{11}, .backend = Backend(candidate)});
    EXPECT_TRUE(PaddingIsUntouched(tokens));
    for (int64_t row = 0; row < c.num_rows; ++row) {
      const Expected& e = expected[static_cast<size_t>(row)];
      EXPECT_EQ(num_accepted.At({row}), 100 + e.num_accepted) << "row " << row;
      EXPECT_EQ(num_emitted.At({row}), 1000 + e.num_emitted) << "row " << row;
      for (int64_t i = 0; i <= c.num_drafts; ++i) {
        if (i == e.num_emitted && e.is_close) continue;
        EXPECT_EQ(tokens.At({row, i}), e.tokens[static_cast<size_t>(i)]) << row << ", " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, ChainSpeculativeTest,
                         ::testing::ValuesIn(ChainSpeculativeCases()));

TEST(ChainSpeculative, TheFirstTokenHasTheTargetsDistribution) {
  constexpr int64_t kDraws = 200000;
  const std::vector<double> draft{0.5, 0.2, 0.2, 0.1};
  const std::vector<double> target{0.1, 0.3, 0.2, 0.4};
  HostTensor draft_probs(DType::kF32, {1, 4});
  draft_probs.FillWith({0.5, 0.2, 0.2, 0.1});
  HostTensor target_probs(DType::kF32, {2, 4});
  target_probs.FillWith({0.1, 0.3, 0.2, 0.4, 0.25, 0.25, 0.25, 0.25});
  HostTensor drafted(DType::kI32, {kDraws, 1});
  std::mt19937_64 rng(71);
  std::discrete_distribution<int64_t> draw(draft.begin(), draft.end());
  for (int64_t row = 0; row < kDraws; ++row) {
    drafted.Set({row, 0}, static_cast<double>(draw(rng)));
  }
  HostTensor tokens(DType::kI32, {kDraws, 2});
  ChainSpeculativeSampling(
      TensorView(draft_probs.view().data(), DType::kF32, {kDraws, 1, 4}, {0, 4, 1}), drafted,
      TensorView(target_probs.view().data(), DType::kF32, {kDraws, 2, 4}, {0, 4, 1}), {tokens});
  std::vector<double> counts(4, 0);
  for (int64_t row = 0; row < kDraws; ++row) {
    ++counts[static_cast<size_t>(tokens.At({row, 0}))];
  }
  double statistic = 0;
  for (size_t i = 0; i < 4; ++i) {
    const double expected = target[i] * kDraws;
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(statistic, 21.1) << "p-value below 1e-4 with 3 degrees of freedom";
}

TEST(ChainSpeculative, PositionsThatAreNoDistributionGiveAnIdInRange) {
  for (const std::string& candidate : AcceptingCandidates<ChainSpeculativeOp>({DType::kF32, 3})) {
    HostTensor draft(DType::kF32, {3, 1, 3});
    draft.Fill(1.0 / 3);
    HostTensor target(DType::kF32, {3, 2, 3});
    target.Fill(0);
    target.Set({1, 0, 2}, std::numeric_limits<double>::quiet_NaN());
    target.Set({2, 0, 1}, 1.0);
    HostTensor drafted(DType::kI32, {3, 1});
    drafted.FillWith({2, 2, 2});
    HostTensor tokens(DType::kI32, {3, 2});
    ChainSpeculativeSampling(draft, drafted, target, {tokens}, {.backend = Backend(candidate)});
    EXPECT_THAT(tokens.Values(), ElementsAre(0, -1, 0, -1, 1, -1)) << candidate;
  }
}

TEST(ChainSpeculative, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor draft(DType::kF32, {2, 1, 5});
  HostTensor target(DType::kF32, {2, 1, 5});
  HostTensor good(DType::kF32, {2, 2, 5});
  HostTensor drafted(DType::kI32, {2, 1});
  drafted.FillWith({4, 5});
  HostTensor tokens(DType::kI32, {2, 2});
  EXPECT_THAT([&] { ChainSpeculativeSampling(draft, drafted, target, {tokens}); },
              ThrowsMessage<Error>("target_probs: shape is [2, 1, 5], expected [2, 2, 5]"));
  EXPECT_THAT([&] { ChainSpeculativeSampling(draft, drafted, good, {tokens}); },
              ThrowsMessage<Error>("draft_tokens[1, 0]: is 5, accepted: 0 to 4"));
}

}  // namespace
}  // namespace flashinfer::test
