// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking against a sort in float64.
#include "support/checks/token_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/token_filter.h"
#include "support/mismatch.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Rows of a case: with num_distinct, multiples of a power of two, whose sums are exact.
HostTensor MakeRows(const TokenFilterCase& c, std::mt19937_64& rng) {
  HostTensor rows(c.dtype, {c.num_rows, c.vocab_size}, {c.vocab_size + 3, 1}, 1);
  std::uniform_int_distribution<int64_t> level(1, std::max<int64_t>(1, c.num_distinct));
  std::normal_distribution<double> normal(0, 3);
  for (int64_t row = 0; row < c.num_rows; ++row) {
    for (int64_t i = 0; i < c.vocab_size; ++i) {
      double value = c.num_distinct > 0 ? static_cast<double>(level(rng)) : normal(rng);
      if (!c.from_logits) value = c.num_distinct > 0 ? value / 1024 : std::exp(value) / 1000;
      rows.Set({row, i}, value);
    }
  }
  return rows;
}

struct Expected {
  std::vector<double> values;
  std::vector<bool> is_close;  ///< of rows: another token more or less is right, too
};

Expected ExpectedOf(const TokenFilterCase& c, const HostTensor& rows) {
  Expected expected;
  const std::vector<double> all = rows.Values();
  for (int64_t row = 0; row < c.num_rows; ++row) {
    const std::vector<double> values(all.begin() + row * c.vocab_size,
                                     all.begin() + (row + 1) * c.vocab_size);
    bool is_close = false;
    const auto kept = KeptOracle(values, TokensInOrder(values), {c.top_k, c.top_p, 0, false},
                                 c.num_distinct > 0 ? 0 : 2e-6, &is_close);
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += kept[i] ? values[i] : 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double kept_value = c.from_logits ? values[i] : values[i] / sum;
      expected.values.push_back(kept[i] ? kept_value : c.from_logits ? -kInfinity : 0);
    }
    expected.is_close.push_back(is_close);
  }
  return expected;
}

void RunFilter(const TokenFilterCase& c, const TensorView& rows, const TensorView& out,
               Backend backend) {
  if (c.from_logits) return TopKMaskLogits(rows, out, c.top_k, backend);
  if (c.top_p < 1) return TopPRenormProbs(rows, out, c.top_p, backend);
  TopKRenormProbs(rows, out, c.top_k, backend);
}

}  // namespace

void CheckTokenFilter(const TokenFilterCase& c, CaseRun& run) {
  std::mt19937_64 rng(29);
  const HostTensor rows = MakeRows(c, rng);
  Expected expected = ExpectedOf(c, rows);
  // Half a unit in the last place of the dtype, and a sum in float.
  const double relative = c.dtype == DType::kF32 ? 1e-6 : c.dtype == DType::kF16 ? 1e-3 : 8e-3;
  const double smallest = c.dtype == DType::kF16 ? 1e-7 : 0;  // subnormals
  run.ForEachCandidate<TokenFilterOp>({c.dtype, c.vocab_size}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor out(c.dtype, {c.num_rows, c.vocab_size}, {c.vocab_size + 1, 1}, 3);
    RunFilter(c, on(rows), on(out), trial.backend());
    on.Fetch();
    for (int64_t row = 0; row < c.num_rows; ++row) {
      if (!expected.is_close[static_cast<size_t>(row)]) continue;
      for (int64_t i = 0; i < c.vocab_size; ++i) {
        expected.values[static_cast<size_t>(row * c.vocab_size + i)] = out.At({row, i});
      }
    }
    trial.Expect("out", Mismatch(out, expected.values, {smallest, relative}));
  });
}

}  // namespace flashinfer::test
