// SPDX-License-Identifier: Apache-2.0
// Draws against a sort in float64 with the same uniform.
#include "support/checks/sampling.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"
#include "ops/sampling.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

/// Rows of a case: with num_distinct, multiples of a power of two, whose sums are exact.
HostTensor MakeRows(const SamplingCase& c, std::mt19937_64& rng) {
  HostTensor rows(c.dtype, {c.num_rows, c.vocab_size});
  std::uniform_int_distribution<int64_t> level(1, std::max<int64_t>(1, c.num_distinct));
  std::normal_distribution<double> normal(0, 3);
  for (int64_t row = 0; row < c.num_rows; ++row) {
    for (int64_t i = 0; i < c.vocab_size; ++i) {
      double value = c.num_distinct > 0 ? static_cast<double>(level(rng)) : normal(rng);
      if (!c.from_logits) value = c.num_distinct > 0 ? value / 1024 : std::exp(value) / 10;
      rows.Set({row, i}, value);
    }
  }
  return rows;
}

}  // namespace

void CheckSampling(const SamplingCase& c, CaseRun& run) {
  std::mt19937_64 rng(9);
  const HostTensor rows = MakeRows(c, rng);
  const std::vector<double> values = rows.Values();
  const FilterOptions filters{c.top_k, c.top_p, c.min_p, c.joint};
  constexpr int64_t kSeed = 1234567890123;
  const bool is_exact = !c.from_logits && c.num_distinct > 0;
  std::vector<int64_t> expected;
  std::vector<bool> close;
  for (int64_t row = 0; row < c.num_rows; ++row) {
    std::vector<double> keys(values.begin() + row * c.vocab_size,
                             values.begin() + (row + 1) * c.vocab_size);
    const auto probs = c.from_logits ? SoftmaxOracle(keys, c.temperature) : keys;
    if (c.temperature == 0) keys = probs;
    bool is_close = false;
    const auto kept =
        KeptOracle(probs, TokensInOrder(keys), filters, is_exact ? 0 : 2e-6, &is_close);
    const double uniform = PhiloxUniform(kSeed, static_cast<uint64_t>(row), 17);
    expected.push_back(DrawOracle(probs, kept, uniform, is_exact ? 0 : 2e-6, &is_close));
    close.push_back(is_close);
  }
  run.ForEachCandidate<SamplingOp>({c.dtype, c.vocab_size}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor tokens(DType::kI32, {c.num_rows});
    HostTensor valid(DType::kBool, {c.num_rows});
    const SamplingOptions options{
        .temperature = c.temperature,
        .top_k = c.top_k,
        .top_p = c.top_p,
        .min_p = c.min_p,
        .filter_order = c.joint ? FilterOrder::kJoint : FilterOrder::kTopKFirst,
        .seed = kSeed,
        .offset = int64_t{17},
        .backend = trial.backend()};
    if (c.from_logits) {
      SampleFromLogits(on(rows), on(tokens), options, on(valid));
    } else {
      SampleFromProbs(on(rows), on(tokens), options, on(valid));
    }
    on.Fetch();
    for (int64_t row = 0; row < c.num_rows; ++row) {
      trial.ExpectEqual("valid", {row}, valid.At({row}), 1);
      if (!close[static_cast<size_t>(row)]) {
        trial.ExpectEqual("token", {row}, tokens.At({row}),
                          static_cast<double>(expected[static_cast<size_t>(row)]));
      }
    }
  });
}

}  // namespace flashinfer::test
