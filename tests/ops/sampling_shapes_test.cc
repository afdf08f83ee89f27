// SPDX-License-Identifier: Apache-2.0
// Draws from large rows of odd shapes: against a sort in float64, alone and among others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/philox.h"
#include "flashinfer/sampling.h"
#include "ops/sampling.h"
#include "support/device.h"
#include "support/host_tensor.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

struct Shape {
  std::string name;
  std::function<double(int64_t, std::mt19937_64&)> probability;  ///< of a token, up to a factor
};

std::vector<Shape> Shapes(int64_t vocab_size) {
  const auto size = static_cast<double>(vocab_size);
  const auto uniform = [](std::mt19937_64& rng) {
    return std::uniform_real_distribution<double>(0, 1)(rng);
  };
  return {
      {"equal", [=](int64_t, auto&) { return 1 / size; }},
      {"nearly equal", [=](int64_t, auto& rng) { return (1 + 1e-3 * uniform(rng)) / size; }},
      {"uniform", [=](int64_t, auto& rng) { return 2 * uniform(rng) / size; }},
      {"two values", [=](int64_t i, auto&) { return (i % 3 == 0 ? 1.0 : 0.5) / size; }},
      {"falling", [](int64_t i, auto&) { return 0.08 / static_cast<double>(i + 1); }},
      {"rising", [=](int64_t i, auto&) { return 0.08 / (size - static_cast<double>(i)); }},
      {"one large", [=](int64_t i, auto&) { return i == vocab_size / 2 ? 0.5 : 0.5 / size; }},
      {"few", [](int64_t i, auto&) { return i % 4999 == 5 ? static_cast<double>(i) : 0.0; }},
      {"wide", [=](int64_t, auto& rng) { return std::exp2(-100 * uniform(rng)); }},
      {"huge", [=](int64_t, auto& rng) { return 1e30 * std::exp(8 * uniform(rng)); }},
      {"tiny", [=](int64_t, auto& rng) { return 1e-37 * std::exp(-8 * uniform(rng)); }},
      {"subnormal", [=](int64_t, auto& rng) { return 1e-40 * (1 + std::floor(9 * uniform(rng))); }},
  };
}

std::vector<SamplingOptions> Filters() {
  return {{},
          {.top_p = 0.1f},
          {.top_p = 0.5f},
          {.top_p = 0.9f},
          {.top_p = 0.9999f},
          {.top_k = 1},
          {.top_k = 50},
          {.top_k = 1500},
          {.top_k = 9000},
          {.top_k = 50, .top_p = 0.7f},
          {.top_k = 1500, .top_p = 0.7f, .filter_order = FilterOrder::kJoint},
          {.top_k = 9000, .top_p = 0.7f},
          {.top_k = 9000, .top_p = 0.4f, .filter_order = FilterOrder::kJoint},
          {.top_p = 0.9f, .min_p = 0.01f}};
}

/// The oracle's token, or -1 where a result in float may be another one.
int64_t Expected(const std::vector<double>& probs, const std::vector<int64_t>& order,
                 const SamplingOptions& o, uint64_t seed) {
  const FilterOptions filters{o.top_k.value, o.top_p.value, o.min_p.value,
                              o.filter_order == FilterOrder::kJoint};
  bool is_close = false;
  const auto kept = KeptOracle(probs, order, filters, 2e-6, &is_close);
  const int64_t token = DrawOracle(probs, kept, PhiloxUniform(seed, 0, 3), 2e-6, &is_close);
  return is_close ? -1 : token;
}

/// Whether rows are logits, and how long they are.
class SamplingShapesTest : public ::testing::TestWithParam<std::tuple<bool, int64_t>> {};

TEST_P(SamplingShapesTest, DrawsAreTheOraclesAloneAndAmongOthers) {
  const auto [from_logits, vocab_size] = GetParam();
  std::mt19937_64 rng(31);
  const std::vector<Shape> shapes = Shapes(vocab_size);
  const auto num_rows = static_cast<int64_t>(shapes.size());
  HostTensor rows(DType::kF32, {num_rows, vocab_size});
  HostTensor seeds(DType::kI64, {num_rows});
  for (int64_t row = 0; row < num_rows; ++row) {
    seeds.Set({row}, static_cast<double>(100 + row));
    for (int64_t i = 0; i < vocab_size; ++i) {
      const double p = shapes[static_cast<size_t>(row)].probability(i, rng);
      rows.Set({row, i}, from_logits ? std::log(p) : p);
    }
  }
  const std::vector<double> values = rows.Values();
  std::vector<std::vector<double>> probs;
  std::vector<std::vector<int64_t>> orders;
  for (int64_t row = 0; row < num_rows; ++row) {
    const std::vector<double> keys(values.begin() + row * vocab_size,
                                   values.begin() + (row + 1) * vocab_size);
    probs.push_back(from_logits ? SoftmaxOracle(keys, 1) : keys);
    orders.push_back(TokensInOrder(keys));
  }
  for (SamplingOptions options : Filters()) {
    for (Device device : TestDevices()) {
      DeviceCopies on(device);
      HostTensor together(DType::kI32, {num_rows});
      options.seed = on(seeds);
      options.offset = int64_t{3};
      const auto sample = from_logits ? SampleFromLogits : SampleFromProbs;
      sample(on(rows), on(together), options, {}, {});
      on.Fetch();
      for (int64_t row = 0; row < num_rows; ++row) {
        const auto i = static_cast<size_t>(row);
        SCOPED_TRACE(shapes[i].name + " top_k " + std::to_string(options.top_k.value) + " top_p " +
                     std::to_string(options.top_p.value));
        HostTensor alone(DType::kI32, {1});
        options.seed = 100 + row;
        sample(on(rows).Slice(row, row + 1), on(alone), options, {}, {});
        on.Fetch();
        EXPECT_EQ(together.At({row}), alone.At({0}));
        const int64_t token = Expected(probs[i], orders[i], options, 100 + i);
        if (token >= 0) {
          EXPECT_EQ(together.At({row}), static_cast<double>(token));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FromProbsAndLogits, SamplingShapesTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(int64_t{49152}, int64_t{128256})));

}  // namespace
}  // namespace flashinfer::test
