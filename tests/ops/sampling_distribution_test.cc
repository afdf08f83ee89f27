// SPDX-License-Identifier: Apache-2.0
// Sampling by every candidate: which tokens come up in many draws, and how often, of rows that are
// hard to filter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "flashinfer/sampling.h"
#include "ops/sampling.h"
#include "support/device.h"
#include "support/distribution.h"
#include "support/host_tensor.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct DistributionCase {
  std::string name;
  std::vector<double> row;  ///< probabilities, or logits
  FilterOptions filters = {};
  bool from_logits = false;
  float temperature = 1;
  DType dtype = DType::kF32;
};

void PrintTo(const DistributionCase& c, std::ostream* out) { *out << c.name; }

template <class Value>
std::vector<double> RowOf(int64_t vocab_size, const Value& value) {
  std::vector<double> row;
  row.reserve(static_cast<size_t>(vocab_size));
  for (int64_t i = 0; i < vocab_size; ++i) row.push_back(value(i));
  return row;
}

/// Levels of 1 to 5, whose sums in float32 are exact: what top-p keeps is a matter of no rounding.
std::vector<double> Levels(int64_t vocab_size, double unit) {
  std::mt19937_64 rng(31);
  return RowOf(vocab_size, [&](int64_t) { return static_cast<double>(1 + rng() % 5) * unit; });
}

std::vector<double> NormalRow(int64_t vocab_size, double scale) {
  std::mt19937_64 rng(37);
  std::normal_distribution<double> normal(0, scale);
  return RowOf(vocab_size, [&](int64_t) { return normal(rng); });
}

/// Equal probabilities of the first and the last token, and of those beside borders of tiles.
std::vector<double> Borders(int64_t vocab_size) {
  std::vector<double> row(static_cast<size_t>(vocab_size), 0.0);
  for (size_t i : {0, 255, 256, 1023, 1024, 4095, 4096, 16383, 16384}) row[i] = 0.1;
  row.back() = 0.1;
  return row;
}

std::vector<DistributionCase> Unfiltered() {
  std::vector<DistributionCase> cases{
      {"Uniform", std::vector<double>(256, 1.0 / 256)},
      {"Skewed", RowOf(256, [](int64_t i) { return static_cast<double>(i + 1) / 32896; })},
      {"Steep", RowOf(24, [](int64_t i) { return std::ldexp(1.0, static_cast<int>(i) - 24); })},
      {"EqualOfManyTokens", std::vector<double>(128256, 1.0 / 128256)},
      {"OneToken", {0.25}},
      {"Borders", Borders(128256)},
      {"BordersOfAnOddSize", Borders(17001)}};
  for (const double sum : {0.5, 0.97, 1.03, 3.0}) {
    cases.push_back({"Sum" + std::to_string(static_cast<int>(sum * 100)),
                     RowOf(40, [&](int64_t i) { return static_cast<double>(i % 7) * sum / 117; })});
  }
  for (const float temperature : {0.25f, 1.5f}) {
    cases.push_back({"Temperature" + std::to_string(static_cast<int>(temperature * 100)),
                     NormalRow(1000, 1),
                     {},
                     true,
                     temperature});
  }
  cases.push_back({"MaskedLogits",
                   RowOf(700, [](int64_t i) { return i % 3 == 0 ? -kInfinity : 1; }),
                   {},
                   true});
  cases.push_back({"ColdMaskedLogits",
                   RowOf(700, [](int64_t i) { return i % 2 == 0 ? -kInfinity : i * 1.0; }),
                   {.top_k = 20},
                   true,
                   0.0f});
  return cases;
}

std::vector<DistributionCase> Filtered() {
  // 1 and 2^10 tokens that have as much: thresholds at its mass and just above.
  const auto half = RowOf(1025, [](int64_t i) { return i == 700 ? 0.5 : 0x1p-11; });
  const auto one_ulp = RowOf(1000, [](int64_t i) { return 0.5 + (i % 2) * 0x1p-24; });
  const auto huge = RowOf(1000, [](int64_t i) { return i == 5 ? 1.0 : 1e-30; });
  std::vector<DistributionCase> cases{
      {"HalfAtItsMass", half, {.top_p = 0.5}},
      {"HalfAboveItsMass", half, {.top_p = 0.5 + 0x1p-11}},
      {"HalfMinP", half, {.min_p = 0x1p-9}},
      {"OneUlpApart", one_ulp, {.top_k = 500}},
      {"OneUlpApartAndOneMore", one_ulp, {.top_k = 501}},
      {"OneTokenHasAll", huge, {.top_k = 3}},
      {"AllEqual", std::vector<double>(1000, 0x1p-10), {.top_k = 100}},
      {"AllEqualTopP", std::vector<double>(1024, 0x1p-10), {.top_p = 0.25}},
      {"Ascending", RowOf(32000, [](int64_t i) { return (i + 1) * 0x1p-20; }), {.top_k = 1000}},
      {"Descending", RowOf(32000, [](int64_t i) { return (32000 - i) * 0x1p-20; }), {.top_k = 999}},
      {"NormalTopK", NormalRow(1000, 0.5), {.top_k = 300}, true},
      {"NormalTopKTopP", NormalRow(1000, 2), {.top_k = 100, .top_p = 0.7}, true},
      {"NormalMinP", NormalRow(1000, 2), {.min_p = 0.05}, true, 0.8f},
      {"NormalF16", NormalRow(1000, 1), {.top_k = 50, .top_p = 0.8}, true, 1, DType::kF16},
      {"NormalBF16", NormalRow(1000, 1), {.top_k = 50, .top_p = 0.8}, true, 1, DType::kBF16},
      {"ManyBF16", NormalRow(128256, 1), {.top_k = 40}, true, 1, DType::kBF16},
      {"ManyTopP", Levels(128256, 0x1p-18), {.top_p = 0.1}},
      {"ManyTopKTopP", Levels(128256, 0x1p-18), {.top_k = 5000, .top_p = 0.01}}};
  for (const bool joint : {false, true}) {
    const std::string suffix = joint ? "Joint" : "";
    cases.push_back({"Levels" + suffix,
                     Levels(1000, 0x1p-10),
                     {.top_k = 400, .top_p = 0.4, .min_p = 0.5, .joint = joint}});
    cases.push_back(
        {"LevelsTopP" + suffix, Levels(999, 0x1p-10), {.top_p = 0.375, .joint = joint}});
  }
  return cases;
}

class SamplingDistributionTest : public ::testing::TestWithParam<DistributionCase> {
 protected:
  /// How often each token is expected in one draw; the kept ones are those above 0.
  std::vector<double> Expected(const HostTensor& row) {
    const DistributionCase& c = GetParam();
    const std::vector<double> values = row.Values();
    const auto probs = c.from_logits ? SoftmaxOracle(values, c.temperature) : values;
    bool is_close = false;
    const auto order = TokensInOrder(c.temperature == 0 ? probs : values);
    const double slack = c.from_logits ? 1e-6 : 0;
    const std::vector<bool> kept = KeptOracle(probs, order, c.filters, slack, &is_close);
    EXPECT_FALSE(is_close) << "the case leaves open what is kept";
    std::vector<double> expected(probs.size(), 0);
    double total = 0;
    for (size_t i = 0; i < probs.size(); ++i) total += kept[i] ? probs[i] : 0;
    for (size_t i = 0; i < probs.size(); ++i) expected[i] = kept[i] ? probs[i] / total : 0;
    return expected;
  }

  std::vector<double> Count(const HostTensor& row, const DeviceCandidate& candidate,
                            int64_t num_draws) {
    const DistributionCase& c = GetParam();
    DeviceCopies on(candidate.device);
    HostTensor tokens(DType::kI32, {num_draws});
    HostTensor valid(DType::kBool, {num_draws});
    const TensorView one = on(row);
    const TensorView repeated(one.data(), one.dtype(), {num_draws, one.shape(1)}, {0, 1},
                              one.device());
    const SamplingOptions options{
        .temperature = c.temperature,
        .top_k = static_cast<int32_t>(c.filters.top_k),
        .top_p = static_cast<float>(c.filters.top_p),
        .min_p = static_cast<float>(c.filters.min_p),
        .filter_order = c.filters.joint ? FilterOrder::kJoint : FilterOrder::kTopKFirst,
        .seed = int64_t{20261130},
        .backend = Backend(candidate.name)};
    (c.from_logits ? SampleFromLogits : SampleFromProbs)(repeated, on(tokens), options, on(valid),
                                                         {});
    on.Fetch();
    EXPECT_THAT(valid.Values(), ::testing::Each(1));
    std::vector<double> counts(c.row.size(), 0);
    for (double token : tokens.Values()) ++counts.at(static_cast<size_t>(token));
    return counts;
  }
};

TEST_P(SamplingDistributionTest, KeptTokensComeUpAsOftenAsTheyShouldAndNoOthers) {
  const DistributionCase& c = GetParam();
  const auto vocab_size = static_cast<int64_t>(c.row.size());
  HostTensor row(c.dtype, {1, vocab_size});
  for (int64_t i = 0; i < vocab_size; ++i) row.Set({0, i}, c.row[static_cast<size_t>(i)]);
  const std::vector<double> shares = Expected(row);
  for (const DeviceCandidate& candidate : CandidatesOnDevices<SamplingOp>({c.dtype, vocab_size})) {
    SCOPED_TRACE(candidate.name);
    const int64_t num_draws = NumDraws(candidate.device, vocab_size);
    std::vector<double> expected = shares;
    for (double& x : expected) x *= static_cast<double>(num_draws);
    const std::vector<double> counts = Count(row, candidate, num_draws);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (expected[i] == 0) {
        EXPECT_EQ(counts[i], 0) << "token " << i << " is not kept";
      } else if (expected[i] > 40) {  // exp(-40) is the probability of no draw
        EXPECT_GT(counts[i], 0) << "token " << i << " is kept";
      }
    }
    EXPECT_LT(ChiSquareZ(counts, expected), kChiSquareLimit) << num_draws << " draws";
  }
}

constexpr auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Unfiltered, SamplingDistributionTest, ::testing::ValuesIn(Unfiltered()),
                         kName);
INSTANTIATE_TEST_SUITE_P(Filtered, SamplingDistributionTest, ::testing::ValuesIn(Filtered()),
                         kName);

}  // namespace
}  // namespace flashinfer::test
