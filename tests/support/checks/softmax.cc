// SPDX-License-Identifier: Apache-2.0
// Softmax and argmax against float64 loops.
#include "support/checks/softmax.h"

#include <algorithm>

#include "ops/sampling.h"
#include "support/mismatch.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

std::vector<double> Row(const std::vector<double>& values, int64_t row, int64_t size) {
  return {values.begin() + row * size, values.begin() + (row + 1) * size};
}

}  // namespace

void CheckSoftmax(const VocabularyCase& c, CaseRun& run) {
  std::mt19937_64 rng(3);
  HostTensor logits(c.dtype, {c.num_rows, c.vocab_size}, {c.vocab_size + 3, 1}, 1);
  logits.FillNormal(rng, 4.0);
  HostTensor temperature(DType::kF32, {c.num_rows});
  temperature.FillUniform(rng, 0.1, 3);
  if (c.num_rows > 1) temperature.Set({1}, 0);
  const std::vector<double> values = logits.Values();
  std::vector<double> expected;
  for (int64_t row = 0; row < c.num_rows; ++row) {
    const auto probs = SoftmaxOracle(Row(values, row, c.vocab_size), temperature.At({row}));
    expected.insert(expected.end(), probs.begin(), probs.end());
  }
  run.ForEachCandidate<SoftmaxOp>({c.dtype, c.vocab_size}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor probs(DType::kF32, {c.num_rows, c.vocab_size}, {c.vocab_size + 5, 1}, 2);
    Softmax(on(logits), on(probs), on(temperature), trial.backend());
    on.Fetch();
    // An exponent of size 100 carries 100 · 2^-24 of rounding into the relative error.
    trial.Expect("probs", Mismatch(probs, expected, {1e-7, 2e-5}));
  });
}

void CheckArgMax(const VocabularyCase& c, CaseRun& run) {
  std::mt19937_64 rng(3);
  HostTensor logits(c.dtype, {c.num_rows, c.vocab_size}, {c.vocab_size + 3, 1}, 1);
  logits.FillUniform(rng, -8.4, 8.4);
  for (int64_t row = 0; row < c.num_rows; ++row) {  // whole numbers: many ties
    for (int64_t i = 0; i < c.vocab_size; ++i) {
      logits.Set({row, i}, std::round(logits.At({row, i})));
    }
  }
  const std::vector<double> all = logits.Values();
  run.ForEachCandidate<ArgMaxOp>({c.dtype, c.vocab_size}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor tokens(DType::kI32, {c.num_rows});
    HostTensor valid(DType::kBool, {c.num_rows});
    ArgMax(on(logits), on(tokens), on(valid), trial.backend());
    on.Fetch();
    for (int64_t row = 0; row < c.num_rows; ++row) {
      const auto values = Row(all, row, c.vocab_size);
      const auto expected = std::max_element(values.begin(), values.end()) - values.begin();
      trial.ExpectEqual("token", {row}, tokens.At({row}), static_cast<double>(expected));
      trial.ExpectEqual("valid", {row}, valid.At({row}), 1);
    }
  });
}

}  // namespace flashinfer::test
