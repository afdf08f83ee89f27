// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking: every candidate against a sort in float64, odd rows, errors.
#include "ops/token_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/cases/token_filter.h"
#include "support/checks/token_filter.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"
#include "support/token_filters.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class TokenFilterTest : public ::testing::TestWithParam<TokenFilterCase> {};

TEST_P(TokenFilterTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckTokenFilter, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, TokenFilterTest, ::testing::ValuesIn(TokenFilterCases()));

TEST(TokenFilter, ParametersPerRowAndInPlace) {
  for (Device device : TestDevices()) {
    DeviceCopies on(device);
    HostTensor by_count(DType::kF32, {3, 4});
    HostTensor by_mass(DType::kF32, {3, 4});
    HostTensor top_k(DType::kI32, {3});
    HostTensor top_p(DType::kF32, {3});
    for (HostTensor* probs : {&by_count, &by_mass}) {
      probs->FillWith({1, 2, 4, 1, 1, 2, 4, 1, 1, 2, 4, 1});
    }
    top_k.FillWith({1, 2, 3});
    top_p.FillWith({0.5, 0.75, 0.876});
    TopKRenormProbs(on(by_count), on(by_count), on(top_k));
    TopPRenormProbs(on(by_mass), on(by_mass), on(top_p));
    on.Fetch();
    EXPECT_TRUE(AllNear(by_count, {0, 0, 1, 0, 0, 2 / 6., 4 / 6., 0, 1 / 7., 2 / 7., 4 / 7., 0},
                        {0, 1e-6}));
    EXPECT_TRUE(AllNear(by_mass, {0, 0, 1, 0, 0, 2 / 6., 4 / 6., 0, 1 / 8., 2 / 8., 4 / 8., 1 / 8.},
                        {0, 1e-6}));
  }
}

TEST(TokenFilter, RowsThatAreNoDistributionBecomeNanAlone) {
  for (const auto& [candidate, device] : CandidatesOnDevices<TokenFilterOp>({DType::kBF16, 300})) {
    DeviceCopies on(device);
    HostTensor probs(DType::kBF16, {6, 300});
    HostTensor out(DType::kBF16, {6, 300});
    std::mt19937_64 rng(3);
    probs.FillUniform(rng, 0.1, 1);
    probs.Set({1, 299}, kNan);
    for (int64_t i = 0; i < 300; ++i) probs.Set({2, i}, 0);
    probs.Set({3, 5}, kInfinity);
    probs.Set({4, 6}, -0.5);
    TopPRenormProbs(on(probs), on(out), 0.9f, Backend(candidate));
    on.Fetch();
    for (int64_t row = 0; row < 6; ++row) {
      const bool is_bad = row > 0 && row < 5;
      for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(std::isnan(out.At({row, i})), is_bad) << row;
    }
  }
}

TEST(TokenFilter, MaskedLogitsKeepInfinitiesAndNanRows) {
  for (const auto& [candidate, device] : CandidatesOnDevices<TokenFilterOp>({DType::kF32, 5})) {
    DeviceCopies on(device);
    HostTensor logits(DType::kF32, {4, 5});
    logits.FillWith({kInfinity,  -1,         kInfinity,  3,          2,   //
                     -kInfinity, -kInfinity, -kInfinity, -kInfinity, -1,  //
                     1,          kNan,       2,          3,          4,   //
                     -2,         -1,         -3,         -1,         -1});
    HostTensor out(DType::kF32, {4, 5});
    TopKMaskLogits(on(logits), on(out), 2, Backend(candidate));
    on.Fetch();
    const std::vector<double> values = out.Values();
    const std::vector<double> first(values.begin(), values.begin() + 10);
    EXPECT_EQ(first, (std::vector<double>{kInfinity, -kInfinity, kInfinity, -kInfinity, -kInfinity,
                                          -kInfinity, -kInfinity, -kInfinity, -kInfinity, -1}));
    EXPECT_TRUE(std::isnan(values[11]));
    EXPECT_EQ(values[14], 4);
    const std::vector<double> last(values.begin() + 15, values.end());
    EXPECT_EQ(last, (std::vector<double>{-kInfinity, -1, -kInfinity, -1, -kInfinity}));
  }
}

TEST(TokenFilter, RepeatedCallsAreBitEqual) {
  HostTensor probs(DType::kF32, {3, 40000});
  std::mt19937_64 rng(3);
  probs.FillUniform(rng, 0, 1);
  HostTensor first(DType::kF32, {3, 40000});
  TopPRenormProbs(probs, first, 0.7f);
  for (int i = 0; i < 100; ++i) {
    HostTensor again(DType::kF32, {3, 40000});
    TopPRenormProbs(probs, again, 0.7f);
    ASSERT_EQ(again.bytes(), first.bytes());
  }
}

TEST(TokenFilter, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor probs(DType::kF32, {2, 8});
  HostTensor out(DType::kF16, {2, 8});
  HostTensor top_k(DType::kI64, {2});
  EXPECT_THAT([&] { TopKRenormProbs(probs, out, 1); },
              ThrowsMessage<Error>("out: dtype is f16, accepted: f32"));
  EXPECT_THAT([&] { TopPRenormProbs(probs, probs, 1.5f); },
              ThrowsMessage<Error>("top_p: is 1.5, accepted: 0 to 1"));
  EXPECT_THAT([&] { TopKMaskLogits(probs, probs, top_k.view()); },
              ThrowsMessage<Error>("top_k: dtype is i64, accepted: i32"));
}

}  // namespace
}  // namespace flashinfer::test
