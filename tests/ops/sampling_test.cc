// SPDX-License-Identifier: Apache-2.0
// Sampling: each draw against a sort in float64 with the same uniform, odd rows, errors.
#include "flashinfer/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "ops/sampling.h"
#include "support/cases/sampling.h"
#include "support/checks/sampling.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The same row `count` times, without copies.
TensorView Repeated(const TensorView& row, int64_t count) {
  return {row.data(), row.dtype(), {count, row.shape(1)}, {0, 1}, row.device()};
}

std::vector<DeviceCandidate> Candidates(DType dtype, int64_t vocab_size) {
  return CandidatesOnDevices<SamplingOp>({dtype, vocab_size});
}

class SamplingCaseTest : public ::testing::TestWithParam<SamplingCase> {};

TEST_P(SamplingCaseTest, EveryCandidateDrawsTheOraclesToken) {
  ExpectCaseHolds(CheckSampling, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, SamplingCaseTest, ::testing::ValuesIn(SamplingCases()));

/// The tokens that come up in `count` draws from a row.
std::set<int64_t> Drawn(const HostTensor& probs, Device device, const SamplingOptions& options,
                        int64_t count) {
  DeviceCopies on(device);
  HostTensor tokens(DType::kI32, {count});
  SampleFromProbs(Repeated(on(probs), count), on(tokens), options);
  on.Fetch();
  std::set<int64_t> drawn;
  for (double token : tokens.Values()) drawn.insert(static_cast<int64_t>(token));
  return drawn;
}

TEST(Sampling, SupportIsExactlyThePrefixInOrderOnTies) {
  HostTensor probs(DType::kF32, {1, 8});
  probs.FillWith({0.125, 0.25, 0.0625, 0.25, 0.125, 0.0625, 0.125, 0});
  for (const auto& [candidate, device] : Candidates(DType::kF32, 8)) {
    SCOPED_TRACE(candidate);
    const Backend backend(candidate);
    using Set = std::set<int64_t>;
    EXPECT_EQ(Drawn(probs, device, {.backend = backend}, 2000), (Set{0, 1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(Drawn(probs, device, {.top_k = 3, .backend = backend}, 2000), (Set{0, 1, 3}));
    EXPECT_EQ(Drawn(probs, device, {.top_k = 1, .backend = backend}, 2000), (Set{1}));
    EXPECT_EQ(Drawn(probs, device, {.top_k = 8, .backend = backend}, 2000),
              (Set{0, 1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(Drawn(probs, device, {.top_p = 0.625f, .backend = backend}, 2000), (Set{0, 1, 3}));
    EXPECT_EQ(Drawn(probs, device, {.top_p = 0.6251f, .backend = backend}, 2000),
              (Set{0, 1, 3, 4}));
    EXPECT_EQ(Drawn(probs, device, {.top_p = 0.0f, .backend = backend}, 2000), (Set{1}));
    EXPECT_EQ(Drawn(probs, device, {.min_p = 0.5f, .backend = backend}, 2000),
              (Set{0, 1, 3, 4, 6}));
    EXPECT_EQ(Drawn(probs, device, {.min_p = 1.0f, .backend = backend}, 2000), (Set{1, 3}));
    // Of the first four (0.75 in all), half of their mass, or half of everything.
    const SamplingOptions first{.top_k = 4, .top_p = 0.5f, .backend = backend};
    SamplingOptions joint = first;
    joint.filter_order = FilterOrder::kJoint;
    EXPECT_EQ(Drawn(probs, device, first, 2000), (Set{1, 3}));
    joint.top_p = 0.75f;
    EXPECT_EQ(Drawn(probs, device, joint, 2000), (Set{0, 1, 3, 4}));
    SamplingOptions renormalised = joint;
    renormalised.filter_order = FilterOrder::kTopKFirst;  // 0.75 · 0.75 = 0.5625
    EXPECT_EQ(Drawn(probs, device, renormalised, 2000), (Set{0, 1, 3}));
  }
}

TEST(Sampling, RowsThatAreNoDistributionGiveAnIdInRangeAndInvalid) {
  for (int64_t vocab_size : {32000, 128256}) {
    HostTensor rows(DType::kF32, {6, vocab_size});
    std::mt19937_64 rng(4);
    rows.FillUniform(rng, 0.1, 1);
    for (int64_t i = 0; i < vocab_size; ++i) rows.Set({1, i}, kNan);
    rows.Set({2, vocab_size - 1}, kNan);
    for (int64_t i = 0; i < vocab_size; ++i) rows.Set({3, i}, 0);
    rows.Set({4, 5}, kInfinity);
    rows.Set({5, 6}, -0.5);
    HostTensor alone(DType::kI32, {1});
    HostTensor tokens(DType::kI32, {6});
    HostTensor valid(DType::kBool, {6});
    for (const auto& [candidate, device] : Candidates(DType::kF32, vocab_size)) {
      DeviceCopies on(device);
      const SamplingOptions options{
          .top_k = 50, .top_p = 0.9f, .min_p = 0.1f, .backend = Backend(candidate)};
      SampleFromProbs(on(rows), on(tokens), options, on(valid));
      SampleFromProbs(on(rows).Slice(0, 1), on(alone), options);
      on.Fetch();
      EXPECT_EQ(tokens.At({0}), alone.At({0})) << candidate;
      EXPECT_EQ(valid.Values(), (std::vector<double>{1, 0, 0, 0, 0, 0})) << candidate;
      for (double token : tokens.Values()) {
        EXPECT_GE(token, 0);
        EXPECT_LT(token, static_cast<double>(vocab_size));
      }
    }
  }
}

TEST(Sampling, LogitRowsThatAreNoDistributionGiveAnIdInRangeAndInvalid) {
  HostTensor rows(DType::kBF16, {4, 300});
  std::mt19937_64 rng(4);
  rows.FillNormal(rng);
  for (int64_t i = 0; i < 300; ++i) rows.Set({1, i}, -kInfinity);
  rows.Set({2, 299}, kInfinity);
  rows.Set({3, 0}, kNan);
  for (const auto& [candidate, device] : Candidates(DType::kBF16, 300)) {
    DeviceCopies on(device);
    HostTensor tokens(DType::kI32, {4});
    HostTensor valid(DType::kBool, {4});
    SampleFromLogits(on(rows), on(tokens), {.temperature = 0.7f, .backend = Backend(candidate)},
                     on(valid));
    on.Fetch();
    EXPECT_EQ(valid.Values(), (std::vector<double>{1, 0, 0, 0})) << candidate;
    for (double token : tokens.Values()) EXPECT_TRUE(token >= 0 && token < 300) << candidate;
  }
}

TEST(Sampling, OneHotRowsAlwaysGiveTheirToken) {
  HostTensor probs(DType::kF32, {3, 32000});
  probs.Fill(0);
  for (int64_t row : {0, 1, 2}) probs.Set({row, 1}, 1);
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor tokens(DType::kI32, {3});
    SampleFromProbs(on(probs), on(tokens), {.top_k = 1073741824});
    on.Fetch();
    EXPECT_THAT(tokens.Values(), Each(1));
    for (float min_p : {0.0f, 0.5f, 1.0f}) {
      SampleFromProbs(on(probs), on(tokens), {.top_k = 7, .top_p = 1e-6f, .min_p = min_p});
      on.Fetch();
      EXPECT_THAT(tokens.Values(), Each(1)) << min_p;
    }
  }
}

TEST(Sampling, ZeroProbabilityIsNeverDrawnAtAnySize) {
  for (int64_t vocab_size : {128256, 151936, 256001, 262144, 1000003}) {
    HostTensor probs(DType::kF32, {1, vocab_size});
    probs.Fill(0);
    std::set<int64_t> support;
    std::mt19937_64 rng(static_cast<uint64_t>(vocab_size));
    for (int i = 0; i < 3; ++i) support.insert(static_cast<int64_t>(rng() % vocab_size));
    support.insert({0, vocab_size - 1});
    for (int64_t token : support) probs.Set({0, token}, 0.2);
    for (Device device : TestDevices()) {
      EXPECT_EQ(Drawn(probs, device, {}, 40), support) << vocab_size;
      EXPECT_EQ(Drawn(probs, device, {.top_k = 1000, .top_p = 0.99999f}, 40), support)
          << vocab_size;
    }
  }
}

TEST(Sampling, ParametersPerRowAreThoseOfTheRow) {
  constexpr int64_t kRows = 5;
  HostTensor logits(DType::kF32, {1, 500});
  std::mt19937_64 rng(8);
  logits.FillNormal(rng);
  HostTensor temperature(DType::kF32, {kRows});
  HostTensor top_k(DType::kI32, {kRows});
  HostTensor top_p(DType::kF32, {kRows});
  HostTensor min_p(DType::kF32, {kRows});
  HostTensor seed(DType::kI64, {kRows});
  HostTensor offset(DType::kI64, {kRows});
  temperature.FillWith({1, 0, 0.5, 2, 1});
  top_k.FillWith({0, 3, 1, 500, 1073741824});
  top_p.FillWith({1, 1, 0.5, 0, 0.7});
  min_p.FillWith({0, 0, 0, 0, 0.1});
  seed.FillWith({1, 2, -3, 4, 5});
  offset.FillWith({0, 9, 2, 3, 1000});
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor together(DType::kI32, {kRows});
    SampleFromLogits(Repeated(on(logits), kRows), on(together),
                     {.temperature = on(temperature),
                      .top_k = on(top_k),
                      .top_p = on(top_p),
                      .min_p = on(min_p),
                      .seed = on(seed),
                      .offset = on(offset)});
    on.Fetch();
    for (int64_t row = 0; row < kRows; ++row) {
      HostTensor alone(DType::kI32, {1});
      SampleFromLogits(on(logits), on(alone),
                       {.temperature = static_cast<float>(temperature.At({row})),
                        .top_k = static_cast<int32_t>(top_k.At({row})),
                        .top_p = static_cast<float>(top_p.At({row})),
                        .min_p = static_cast<float>(min_p.At({row})),
                        .seed = static_cast<int64_t>(seed.At({row})),
                        .offset = static_cast<int64_t>(offset.At({row}))});
      on.Fetch();
      EXPECT_EQ(together.At({row}), alone.At({0})) << "row " << row;
    }
  }
}

TEST(Sampling, IndicesChooseTheRowOfEachOutput) {
  HostTensor probs(DType::kF32, {3, 40});
  std::mt19937_64 rng(6);
  probs.FillUniform(rng, 0.1, 1);
  HostTensor top_k(DType::kI32, {5});
  top_k.FillWith({1, 2, 3, 4, 0});
  for (DType dtype : {DType::kI32, DType::kI64}) {
    HostTensor indices(dtype, {5}, {2});
    indices.FillWith({2, 0, 2, 1, 2});
    HostTensor gathered(DType::kF32, {5, 40});
    for (int64_t i = 0; i < 5; ++i) {
      const auto row = static_cast<int64_t>(indices.At({i}));
      for (int64_t v = 0; v < 40; ++v) gathered.Set({i, v}, probs.At({row, v}));
    }
    for (Device device : TestDevices()) {
      DeviceCopies on(device);
      HostTensor tokens(DType::kI32, {5});
      HostTensor expected(DType::kI32, {5});
      SampleFromProbs(on(probs), on(tokens),
                      {.top_k = on(top_k), .seed = int64_t{3}, .indices = on(indices)});
      SampleFromProbs(on(gathered), on(expected), {.top_k = on(top_k), .seed = int64_t{3}});
      on.Fetch();
      EXPECT_EQ(tokens.Values(), expected.Values());
    }
  }
  HostTensor wrong(DType::kI32, {2});
  wrong.FillWith({0, 3});
  HostTensor tokens(DType::kI32, {2});
  EXPECT_THAT([&] { SampleFromProbs(probs, tokens, {.indices = wrong}); },
              ThrowsMessage<Error>("indices[1]: is 3, accepted: 0 to 2"));
}

TEST(Sampling, RowsDoNotDependOnTheBatch) {
  constexpr int64_t kVocab = 128256;
  HostTensor logits(DType::kF32, {1, kVocab});
  std::mt19937_64 rng(12);
  logits.FillNormal(rng, 2.0);
  const SamplingOptions options{.top_k = 5000, .top_p = 0.8f, .seed = int64_t{77}};
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor many(DType::kI32, {40});
    HostTensor few(DType::kI32, {3});
    SampleFromLogits(Repeated(on(logits), 40), on(many), options);
    SampleFromLogits(Repeated(on(logits), 3), on(few), options);
    on.Fetch();
    for (int64_t row : {0, 1, 2}) EXPECT_EQ(many.At({row}), few.At({row}));
  }
}

TEST(Sampling, AdvancingTheOffsetGivesFreshDraws) {
  HostTensor probs(DType::kF32, {1, 1024});
  probs.Fill(1.0 / 1024);
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    std::set<double> advanced;
    std::set<double> repeated;
    HostTensor token(DType::kI32, {1});
    for (int64_t step = 0; step < 1000; ++step) {
      SampleFromProbs(on(probs), on(token), {.offset = step});
      on.Fetch();
      advanced.insert(token.At({0}));
      SampleFromProbs(on(probs), on(token), {.offset = int64_t{3}});
      on.Fetch();
      repeated.insert(token.At({0}));
    }
    EXPECT_GE(advanced.size(), 560u);
    EXPECT_LE(advanced.size(), 710u);
    EXPECT_EQ(repeated.size(), 1u);
  }
}

TEST(Sampling, EmptyBatchesAndManyRows) {
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor none(DType::kF32, {0, 32});
    HostTensor no_tokens(DType::kI32, {0});
    SampleFromProbs(on(none), on(no_tokens));
    HostTensor probs(DType::kF32, {1, 32});
    probs.Fill(0.5);
    for (int64_t num_rows : {70000, 200000}) {
      HostTensor tokens(DType::kI32, {num_rows});
      tokens.Fill(-1);
      SampleFromProbs(Repeated(on(probs), num_rows), on(tokens));
      on.Fetch();
      for (double token : tokens.Values()) ASSERT_TRUE(token >= 0 && token < 32);
    }
  }
}

TEST(Sampling, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor probs(DType::kF32, {2, 8});
  probs.Fill(0.1);
  HostTensor tokens(DType::kI32, {2});
  HostTensor top_p(DType::kF32, {2});
  top_p.FillWith({0.5, 1.5});
  HostTensor seeds(DType::kI64, {3});
  EXPECT_THAT([&] { SampleFromProbs(probs, tokens, {.temperature = 0.5f}); },
              ThrowsMessage<Error>(HasSubstr("temperature: is given, expected 1")));
  EXPECT_THAT([&] { SampleFromLogits(probs, tokens, {.temperature = -0.5f}); },
              ThrowsMessage<Error>("temperature: is -0.5, accepted: 0 or more"));
  EXPECT_THAT([&] { SampleFromProbs(probs, tokens, {.top_k = -1}); },
              ThrowsMessage<Error>("top_k: is -1, accepted: 0 (all) or more"));
  EXPECT_THAT([&] { SampleFromProbs(probs, tokens, {.top_p = top_p.view()}); },
              ThrowsMessage<Error>("top_p: row 1 is 1.5, accepted: 0 to 1"));
  EXPECT_THAT([&] { SampleFromProbs(probs, tokens, {.seed = seeds.view()}); },
              ThrowsMessage<Error>("seed: shape is [3], expected [2]"));
  EXPECT_THAT([&] { SampleFromProbs(probs, tokens, {.min_p = NAN}); },
              ThrowsMessage<Error>(HasSubstr("min_p: is nan")));
}

}  // namespace
}  // namespace flashinfer::test
