// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling: every candidate against a loop in float64 with the same uniforms, the
// distribution of the tokens, odd rows, errors.
#include "ops/chain_speculative.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/cases/chain_speculative.h"
#include "support/checks/chain_speculative.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/distribution.h"
#include "support/host_tensor.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

class ChainSpeculativeTest : public ::testing::TestWithParam<ChainSpeculativeCase> {};

TEST_P(ChainSpeculativeTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckChainSpeculative, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, ChainSpeculativeTest,
                         ::testing::ValuesIn(ChainSpeculativeCases()));

/// [1, num_positions, vocab_size] of probabilities.
HostTensor RandomProbs(int64_t num_positions, int64_t vocab_size, std::mt19937_64& rng) {
  HostTensor probs(DType::kF32, {1, num_positions, vocab_size});
  std::normal_distribution<double> normal(0, 1);
  for (int64_t position = 0; position < num_positions; ++position) {
    std::vector<double> logits(static_cast<size_t>(vocab_size));
    for (double& x : logits) x = normal(rng);
    const std::vector<double> row = SoftmaxOracle(logits, 1);
    for (int64_t i = 0; i < vocab_size; ++i) {
      probs.Set({0, position, i}, row[static_cast<size_t>(i)]);
    }
  }
  return probs;
}

std::vector<double> RowOf(const HostTensor& probs, int64_t position) {
  std::vector<double> row;
  for (int64_t i = 0; i < probs.view().shape(2); ++i) row.push_back(probs.At({0, position, i}));
  return row;
}

/// The same positions for every row, without copies.
TensorView Repeated(const TensorView& probs, int64_t num_rows) {
  return {probs.data(),
          DType::kF32,
          {num_rows, probs.shape(1), probs.shape(2)},
          {0, probs.stride(1), 1},
          probs.device()};
}

/// Whatever the drafts' distribution, tokens have the target's, at every position that is reached.
TEST(ChainSpeculative, TokensHaveTheTargetsDistribution) {
  constexpr int64_t kDrafts = 2;
  std::mt19937_64 rng(71);
  for (int64_t vocab_size : {4, 300}) {
    const HostTensor draft = RandomProbs(kDrafts, vocab_size, rng);
    const HostTensor target = RandomProbs(kDrafts + 1, vocab_size, rng);
    for (const auto& [candidate, device] :
         CandidatesOnDevices<ChainSpeculativeOp>({DType::kF32, vocab_size})) {
      SCOPED_TRACE(candidate);
      const int64_t num_rows = NumDraws(device, vocab_size);
      HostTensor drafted(DType::kI32, {num_rows, kDrafts});
      for (int64_t position = 0; position < kDrafts; ++position) {
        const std::vector<double> row = RowOf(draft, position);
        std::discrete_distribution<int64_t> draw(row.begin(), row.end());
        for (int64_t i = 0; i < num_rows; ++i) {
          drafted.Set({i, position}, static_cast<double>(draw(rng)));
        }
      }
      DeviceCopies on(device);
      HostTensor tokens(DType::kI32, {num_rows, kDrafts + 1});
      ChainSpeculativeSampling(Repeated(on(draft), num_rows), on(drafted),
                               Repeated(on(target), num_rows), {on(tokens)},
                               {.seed = int64_t{9}, .backend = Backend(candidate)});
      on.Fetch();
      for (int64_t position = 0; position <= kDrafts; ++position) {
        std::vector<double> counts(static_cast<size_t>(vocab_size), 0);
        double num_reached = 0;
        for (int64_t i = 0; i < num_rows; ++i) {
          const double token = tokens.At({i, position});
          if (token < 0) continue;
          ++counts.at(static_cast<size_t>(token));
          ++num_reached;
        }
        std::vector<double> expected = RowOf(target, position);
        for (double& x : expected) x *= num_reached;
        EXPECT_GT(num_reached, 0);
        EXPECT_LT(ChiSquareZ(counts, expected), kChiSquareLimit) << position;
      }
    }
  }
}

TEST(ChainSpeculative, PositionsThatAreNoDistributionGiveAnIdInRange) {
  for (const auto& [candidate, device] :
       CandidatesOnDevices<ChainSpeculativeOp>({DType::kF32, 3})) {
    DeviceCopies on(device);
    HostTensor draft(DType::kF32, {3, 1, 3});
    draft.Fill(1.0 / 3);
    HostTensor target(DType::kF32, {3, 2, 3});
    target.Fill(0);
    target.Set({1, 0, 2}, std::numeric_limits<double>::quiet_NaN());
    target.Set({2, 0, 1}, 1.0);
    HostTensor drafted(DType::kI32, {3, 1});
    drafted.FillWith({2, 2, 2});
    HostTensor tokens(DType::kI32, {3, 2});
    ChainSpeculativeSampling(on(draft), on(drafted), on(target), {on(tokens)},
                             {.backend = Backend(candidate)});
    on.Fetch();
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
