// SPDX-License-Identifier: Apache-2.0
// Whether counts of draws have the frequencies that they should.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cuda/device.h"

namespace flashinfer::test {

/// How many draws from a row of `vocab_size` a test makes: a million on a GPU, fewer on CPUs, of
/// which each candidate draws, and on a device in software.
inline int64_t NumDraws(Device device, int64_t vocab_size) {
  const auto within = [&](int64_t elements, int64_t most) {
    return std::clamp<int64_t>(elements / vocab_size, 20, most);
  };
  if (device.type == DeviceType::kCpu) return within(10'000'000, 50'000);
  const std::string_view name = cuda::Properties(device).name;
  if (name.find("software") != std::string_view::npos) return within(300'000, 1'000);
  return 1'000'000;
}

/// The chi-square statistic of counts as a standard normal quantile (Wilson and Hilferty, 1931):
/// above kChiSquareLimit with a probability of 1e-4. Neighbours share a bin until at least 20 are
/// expected in it; 0 where there are not two.
inline constexpr double kChiSquareLimit = 3.72;
inline double ChiSquareZ(const std::vector<double>& counts, const std::vector<double>& expected) {
  double statistic = 0;
  double count = 0;
  double expected_count = 0;
  double left = 0;
  for (double x : expected) left += x;
  int num_bins = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    count += counts[i];
    expected_count += expected[i];
    left -= expected[i];
    if (i + 1 < counts.size() && (expected_count < 20 || left < 20)) continue;
    if (expected_count <= 0) continue;
    statistic += (count - expected_count) * (count - expected_count) / expected_count;
    ++num_bins;
    count = expected_count = 0;
  }
  if (num_bins < 2) return 0;
  const double degrees = num_bins - 1;
  const double v = 2 / (9 * degrees);
  return (std::cbrt(statistic / degrees) - (1 - v)) / std::sqrt(v);
}

}  // namespace flashinfer::test
