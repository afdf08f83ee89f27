// SPDX-License-Identifier: Apache-2.0
// Top-k selection against a stable sort.
#include "support/checks/topk.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/topk.h"
#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Indices of the k largest, as TopK() orders them; -1 past the end.
std::vector<double> Oracle(const std::vector<double>& row, const TopKCase& c) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  if (c.highest_index) std::reverse(order.begin(), order.end());
  const auto value = [&](int64_t i) { return row[static_cast<size_t>(i)]; };
  const auto is_before = [&](int64_t a, int64_t b) { return value(a) > value(b); };
  std::stable_sort(order.begin(), order.end(), is_before);
  order.resize(std::min(order.size(), static_cast<size_t>(c.k)));
  std::sort(order.begin(), order.end());
  if (c.sorted) std::stable_sort(order.begin(), order.end(), is_before);
  order.resize(static_cast<size_t>(c.k), -1);
  return {order.begin(), order.end()};
}

}  // namespace

void CheckTopK(const TopKCase& c, CaseRun& run) {
  std::mt19937_64 rng(37);
  HostTensor input(c.dtype, {c.num_rows, c.num_cols}, {c.num_cols + 5, 1}, 1);
  input.FillNormal(rng);
  std::uniform_int_distribution<int64_t> level(0, std::max<int64_t>(1, c.num_distinct) - 1);
  std::vector<double> expected;
  for (int64_t row = 0; row < c.num_rows; ++row) {
    for (int64_t i = 0; c.num_distinct > 0 && i < c.num_cols; ++i) {
      input.Set({row, i}, static_cast<double>(level(rng)) / 64 - 1);
    }
  }
  const std::vector<double> all = input.Values();
  for (int64_t row = 0; row < c.num_rows; ++row) {
    const auto indices =
        Oracle({all.begin() + row * c.num_cols, all.begin() + (row + 1) * c.num_cols}, c);
    expected.insert(expected.end(), indices.begin(), indices.end());
  }
  run.ForEachCandidate<TopKOp>({c.dtype, c.num_cols}, c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor values(c.dtype, {c.num_rows, c.k}, {c.k + 2, 1});
    HostTensor indices(c.sorted ? DType::kI64 : DType::kI32, {c.num_rows, c.k}, {c.k + 1, 1});
    TopK(on(input), on(values), on(indices),
         {.sorted = c.sorted,
          .tie_break = c.highest_index ? TieBreak::kHighestIndex : TieBreak::kLowestIndex,
          .backend = trial.backend()});
    on.Fetch();
    trial.Expect("indices", Mismatch(indices, expected, {0, 0}));
    if (!trial.failures().empty()) return;
    trial.ExpectTrue("padding of values is untouched", PaddingIsUntouched(values));
    for (int64_t row = 0; row < c.num_rows; ++row) {
      for (int64_t i = 0; i < c.k; ++i) {
        const auto index = static_cast<int64_t>(indices.At({row, i}));
        trial.ExpectEqual("value", {row, i}, values.At({row, i}),
                          index < 0 ? -kInfinity : input.At({row, index}));
      }
    }
  });
}

}  // namespace flashinfer::test
