// SPDX-License-Identifier: Apache-2.0
// The oracle of token filters and draws: a full sort, in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace flashinfer::test {

struct FilterOptions {
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  bool joint = false;
};

/// softmax(logits / temperature); temperature 0 is uniform over what is not -inf.
inline std::vector<double> SoftmaxOracle(std::vector<double> logits, double temperature) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double& x : logits) {
    if (temperature == 0) {
      x = std::isinf(x) ? 0 : 1;
    } else {
      x = std::exp((x - max) / temperature);
    }
    sum += x;
  }
  for (double& x : logits) x /= sum;
  return logits;
}

/// Tokens by (probability descending, index ascending). `keys` order as the probabilities do.
inline std::vector<int64_t> TokensInOrder(const std::vector<double>& keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)];
  });
  return order;
}

/// Which tokens stay. A top-p or min-p boundary within `slack` of the threshold sets *is_close:
/// there a result in float may keep one token more or less.
inline std::vector<bool> KeptOracle(const std::vector<double>& probs,
                                    const std::vector<int64_t>& order, const FilterOptions& options,
                                    double slack, bool* is_close) {
  const auto p = [&](size_t rank) { return probs[static_cast<size_t>(order[rank])]; };
  const double total = std::accumulate(probs.begin(), probs.end(), 0.0);
  size_t length = order.size();
  if (options.top_k > 0) length = std::min(length, static_cast<size_t>(options.top_k));
  double mass = 0;
  for (size_t i = 0; i < length; ++i) mass += p(i);
  if (options.top_p < 1) {
    const double target = options.top_p * (options.joint ? total : mass);
    double cumulative = 0;
    for (size_t i = 0; i < length; ++i) {
      cumulative += p(i);
      if (slack > 0 && std::abs(cumulative - target) < slack * total) *is_close = true;
      if (cumulative >= target) length = i + 1;
    }
  }
  std::vector<bool> kept(probs.size(), false);
  for (size_t i = 0; i < length; ++i) {
    const double limit = options.min_p * p(0);
    if (slack > 0 && options.min_p > 0 && std::abs(p(i) - limit) < slack * p(0)) *is_close = true;
    // Of logits, which may be negative, there is no min-p.
    kept[static_cast<size_t>(order[i])] = options.min_p == 0 || p(i) >= limit;
  }
  return kept;
}

/// The first kept token at which the cumulative probability in vocabulary order reaches `uniform`
/// of the kept mass; sets *is_close when `uniform` is within `slack` of a step.
inline int64_t DrawOracle(const std::vector<double>& probs, const std::vector<bool>& kept,
                          double uniform, double slack, bool* is_close) {
  double total = 0;
  for (size_t i = 0; i < probs.size(); ++i) total += kept[i] ? probs[i] : 0;
  double cumulative = 0;
  int64_t token = 0;
  for (size_t i = 0; i < probs.size(); ++i) {
    if (!kept[i] || probs[i] <= 0) continue;
    token = static_cast<int64_t>(i);
    cumulative += probs[i];
    if (std::abs(cumulative - uniform * total) < slack * total) *is_close = true;
    if (cumulative >= uniform * total) break;
  }
  return token;
}

}  // namespace flashinfer::test
