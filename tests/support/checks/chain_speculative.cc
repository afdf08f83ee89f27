// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling against a loop in float64 with the same uniforms.
#include "support/checks/chain_speculative.h"

#include <algorithm>
#include <numeric>

#include "core/philox.h"
#include "ops/chain_speculative.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

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

}  // namespace

void CheckChainSpeculative(const ChainSpeculativeCase& c, CaseRun& run) {
  const Inputs in(c);
  std::vector<Expected> expected;
  expected.reserve(static_cast<size_t>(c.num_rows));
  for (int64_t row = 0; row < c.num_rows; ++row) expected.push_back(Oracle(in, c, row, 11));
  run.ForEachCandidate<ChainSpeculativeOp>({DType::kF32, c.vocab_size}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor tokens(DType::kI32, {c.num_rows, c.num_drafts + 1}, {c.num_drafts + 3, 1});
    HostTensor num_accepted(DType::kI32, {c.num_rows});
    HostTensor num_emitted(DType::kI32, {c.num_rows});
    num_accepted.Fill(100);
    num_emitted.Fill(1000);
    ChainSpeculativeSampling(on(in.draft), on(in.tokens), on(in.target),
                             {on(tokens), on(num_accepted), on(num_emitted)},
                             {.seed = kSeed, .offset = int64_t{11}, .backend = trial.backend()});
    on.Fetch();
    trial.ExpectTrue("padding of tokens is untouched", PaddingIsUntouched(tokens));
    for (int64_t row = 0; row < c.num_rows; ++row) {
      const Expected& e = expected[static_cast<size_t>(row)];
      trial.ExpectEqual("num_accepted", {row}, num_accepted.At({row}),
                        100.0 + static_cast<double>(e.num_accepted));
      trial.ExpectEqual("num_emitted", {row}, num_emitted.At({row}),
                        1000.0 + static_cast<double>(e.num_emitted));
      for (int64_t i = 0; i <= c.num_drafts; ++i) {
        if (i == e.num_emitted && e.is_close) continue;
        trial.ExpectEqual("token", {row, i}, tokens.At({row, i}), e.tokens[static_cast<size_t>(i)]);
      }
    }
  });
}

}  // namespace flashinfer::test
