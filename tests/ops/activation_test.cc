// SPDX-License-Identifier: Apache-2.0
// Gated activations: every candidate against a float64 loop, and their errors.
#include "flashinfer/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ops/activation.h"
#include "support/candidates.h"
#include "support/cases/activation.h"
#include "support/checks/activation.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

class ActivationCaseTest : public ::testing::TestWithParam<ActivationCase> {};

TEST_P(ActivationCaseTest, EveryCandidateMatchesTheOracle) {
  ExpectCaseHolds(CheckActivation, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shared, ActivationCaseTest, ::testing::ValuesIn(ActivationCases()));

class EveryKindTest : public ::testing::TestWithParam<ActivationKind> {
 public:
  /// Calls `body` with each candidate that takes f32.
  void ForEachCandidate(const std::function<void(Backend)>& body) {
    const ActivationProblem problem{
        .kind = GetParam(), .dtype = DType::kF32, .dtype_out = DType::kF32};
    for (const std::string& candidate : AcceptingCandidates<ActivationOp>(problem)) {
      SCOPED_TRACE(candidate);
      body(Backend(candidate));
    }
  }
};

TEST_P(EveryKindTest, LargeInputsNeitherOverflowNorLoseTheirSign) {
  ForEachCandidate([](Backend backend) {
    HostTensor x(DType::kF32, {1, 8});
    x.FillWith({-1e4, -90, 1e4, 0, 1, 1, 1, 1});
    HostTensor out(DType::kF32, {1, 4});
    RunActivation(GetParam(), x, out, {.backend = backend});
    EXPECT_TRUE(AllNear(out, {0, 0, 1e4, 0}, {1e-30, 1e-6}));
  });
}

TEST_P(EveryKindTest, TailsKeepTheirRelativeAccuracy) {
  constexpr int64_t kCount = 2000;
  HostTensor x(DType::kF32, {1, 2 * kCount});
  for (int64_t i = 0; i < kCount; ++i) {
    x.Set({0, i}, -5 + 10.0 * static_cast<double>(i) / kCount);
    x.Set({0, kCount + i}, 1);
  }
  ForEachCandidate([&](Backend backend) {
    HostTensor out(DType::kF32, {1, kCount});
    RunActivation(GetParam(), x, out, {.backend = backend});
    for (int64_t i = 0; i < kCount; ++i) {
      const double right = ApplyActivation(GetParam(), x.At({0, i}));
      ASSERT_NEAR(out.At({0, i}), right, 3e-6 * std::abs(right)) << x.At({0, i});
    }
  });
}

TEST_P(EveryKindTest, NanStaysNan) {
  ForEachCandidate([](Backend backend) {
    HostTensor x(DType::kF32, {1, 4});
    x.FillWith({std::nan(""), 1, 1, std::nan("")});
    HostTensor out(DType::kF32, {1, 2});
    RunActivation(GetParam(), x, out, {.backend = backend});
    EXPECT_TRUE(std::isnan(out.At({0, 0})) && std::isnan(out.At({0, 1})));
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKindTest,
                         ::testing::Values(ActivationKind::kSilu, ActivationKind::kGelu,
                                           ActivationKind::kGeluTanh));

TEST(SiluAndMul, WritesOntoTheFirstHalfOfItsInput) {
  HostTensor x(DType::kF32, {3, 40});
  std::mt19937_64 rng(6);
  x.FillNormal(rng);
  const std::vector<double> expected = ActivationOracle({.size = 20}, x.Values());
  const TensorView out(x.view().data(), DType::kF32, {3, 20}, {40, 1});
  SiluAndMul(x, out);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_NEAR(x.At({row, i}), expected[static_cast<size_t>(row * 20 + i)], 1e-5);
    }
  }
}

TEST(SiluAndMul, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor x(DType::kBF16, {2, 8});
  HostTensor odd(DType::kBF16, {2, 7});
  HostTensor out(DType::kBF16, {2, 4});
  HostTensor wide(DType::kBF16, {2, 8});
  HostTensor f32(DType::kF32, {2, 4});
  EXPECT_THAT([&] { SiluAndMul(odd, out); },
              ThrowsMessage<Error>("x: last dimension is 7, expected an even size"));
  EXPECT_THAT([&] { SiluAndMul(x, wide); },
              ThrowsMessage<Error>("out: shape is [2, 8], expected [2, 4]"));
  EXPECT_THAT([&] { SiluAndMul(x, f32); },
              ThrowsMessage<Error>("out: dtype is f32, accepted: bf16, e4m3, e5m2"));
  EXPECT_THAT([&] { GeluAndMul(x, out, {.out_scale = -1.0f}); },
              ThrowsMessage<Error>("out_scale: is -1, expected more than 0"));
  EXPECT_THAT([&] { GeluAndMul(x, out, {.out_scale_tensor = f32}); },
              ThrowsMessage<Error>("out_scale_tensor: shape is [2, 4], expected [1]"));
}

}  // namespace
}  // namespace flashinfer::test
