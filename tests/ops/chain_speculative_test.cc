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
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor tokens(DType::kI32, {kDraws, 2});
    const auto repeated = [&](const HostTensor& probs, int64_t num_positions) {
      const TensorView view = on(probs);
      return TensorView(view.data(), DType::kF32, {kDraws, num_positions, 4}, {0, 4, 1}, device);
    };
    ChainSpeculativeSampling(repeated(draft_probs, 1), on(drafted), repeated(target_probs, 2),
                             {on(tokens)});
    on.Fetch();
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
