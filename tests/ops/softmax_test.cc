// SPDX-License-Identifier: Apache-2.0
// Softmax and argmax: every candidate against a float64 loop, odd rows and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/fields.h"
#include "flashinfer/sampling.h"
#include "ops/sampling.h"
#include "support/checks/softmax.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class VocabularyTest : public ::testing::TestWithParam<VocabularyCase> {};

TEST_P(VocabularyTest, SoftmaxMatchesTheOracleWithATemperaturePerRow) {
  ExpectCaseHolds(CheckSoftmax, GetParam());
}

TEST_P(VocabularyTest, ArgMaxIsTheFirstLargest) { ExpectCaseHolds(CheckArgMax, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, VocabularyTest, ::testing::ValuesIn(VocabularyCases()));

TEST(Softmax, RowsThatAreNoDistributionAreNanAndOthersAreNot) {
  HostTensor logits(DType::kF32, {4, 40});
  logits.Fill(1);
  logits.Set({0, 3}, -kInfinity);
  logits.Set({1, 39}, kNan);
  logits.Set({2, 0}, kInfinity);
  for (int64_t i = 0; i < 40; ++i) logits.Set({3, i}, -kInfinity);
  for (const auto& [candidate, device] : CandidatesOnDevices<SoftmaxOp>({DType::kF32, 40})) {
    DeviceCopies on(device);
    HostTensor probs(DType::kF32, {4, 40});
    Softmax(on(logits), on(probs), 0.0f, Backend(candidate));
    on.Fetch();
    for (int64_t i = 0; i < 40; ++i) {
      EXPECT_NEAR(probs.At({0, i}), i == 3 ? 0 : 1.0 / 39, 1e-8) << candidate;
      for (int64_t row : {1, 2, 3}) EXPECT_TRUE(std::isnan(probs.At({row, i}))) << candidate;
    }
  }
}

TEST(Softmax, RepeatedCallsAreBitEqual) {
  HostTensor logits(DType::kF32, {3, 40000});
  std::mt19937_64 rng(3);
  logits.FillNormal(rng);
  HostTensor first(DType::kF32, {3, 40000});
  Softmax(logits, first);
  for (int i = 0; i < 100; ++i) {
    HostTensor again(DType::kF32, {3, 40000});
    Softmax(logits, again);
    ASSERT_EQ(again.bytes(), first.bytes());
  }
}

TEST(Softmax, TinyTemperaturesAreTheLargestLogit) {
  HostTensor logits(DType::kF32, {1, 3});
  logits.FillWith({5, -1, 4.999});
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    for (float temperature : {1e-5f, 1e-30f, 1e-45f}) {
      HostTensor probs(DType::kF32, {1, 3});
      Softmax(on(logits), on(probs), temperature);
      on.Fetch();
      EXPECT_EQ(probs.Values(), (std::vector<double>{1, 0, 0})) << temperature;
    }
  }
}

TEST(ArgMax, IgnoresNanAndSaysSo) {
  HostTensor logits(DType::kF32, {4, 20});
  logits.Fill(-3);
  logits.Set({0, 4}, kNan);
  logits.Set({0, 7}, 2);
  for (int64_t i = 0; i < 20; ++i) logits.Set({1, i}, kNan);
  for (int64_t i = 0; i < 20; ++i) logits.Set({2, i}, -kInfinity);
  logits.Set({3, 19}, kInfinity);
  for (const auto& [candidate, device] : CandidatesOnDevices<ArgMaxOp>({DType::kF32, 20})) {
    DeviceCopies on(device);
    HostTensor tokens(DType::kI32, {4});
    HostTensor valid(DType::kBool, {4});
    ArgMax(on(logits), on(tokens), on(valid), Backend(candidate));
    on.Fetch();
    EXPECT_EQ(tokens.Values(), (std::vector<double>{7, 0, 0, 19})) << candidate;
    EXPECT_EQ(valid.Values(), (std::vector<double>{0, 0, 0, 1})) << candidate;
  }
}

TEST(Softmax, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor logits(DType::kF32, {2, 8});
  HostTensor empty(DType::kF32, {2, 0});
  HostTensor probs(DType::kBF16, {2, 8});
  HostTensor tokens(DType::kI64, {2});
  EXPECT_THAT([&] { Softmax(logits, probs); },
              ThrowsMessage<Error>("probs: dtype is bf16, accepted: f32"));
  EXPECT_THAT([&] { Softmax(logits, logits, -1.0f); },
              ThrowsMessage<Error>("temperature: is -1, accepted: 0 or more"));
  EXPECT_THAT([&] { Softmax(empty, empty); },
              ThrowsMessage<Error>("logits: vocab_size is 0, accepted: 1 to 2147483647"));
  EXPECT_THAT([&] { ArgMax(logits, tokens); },
              ThrowsMessage<Error>("tokens: dtype is i64, accepted: i32"));
}

}  // namespace
}  // namespace flashinfer::test
