// SPDX-License-Identifier: Apache-2.0
// Gated activations: every candidate against a float64 loop, and their errors.
#include "flashinfer/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/activation.h"
#include "support/candidates.h"
#include "support/cases/activation.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::ThrowsMessage;

double Silu(double x) { return x / (1 + std::exp(-x)); }

using Function = double (*)(double);

/// `x` holds rows of two halves of `size`.
std::vector<double> Oracle(const std::vector<double>& x, size_t size, Function function) {
  std::vector<double> out(x.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t at = i / size * 2 * size + i % size;
    out[i] = function(x[at]) * x[at + size];
  }
  return out;
}

class ActivationCaseTest : public ::testing::TestWithParam<ActivationCase> {};

TEST_P(ActivationCaseTest, EveryCandidateMatchesTheOracle) {
  const ActivationCase& c = GetParam();
  std::mt19937_64 rng(5);
  for (const std::string& candidate : AcceptingCandidates<SiluAndMulOp>({c.dtype, c.size})) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor x(c.dtype, {c.num_tokens, 2 * c.size}, {2 * c.size + c.row_padding, 1});
    x.FillNormal(rng, 2.0);
    HostTensor out(c.dtype, {c.num_tokens, c.size}, {c.size + c.row_padding, 1});
    SiluAndMul(x, out, Backend(candidate));
    const auto expected = Oracle(x.Values(), static_cast<size_t>(c.size), Silu);
    EXPECT_TRUE(AllNear(out, expected, ToleranceOf(c.dtype)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, ActivationCaseTest, ::testing::ValuesIn(ActivationCases()));

TEST(SiluAndMul, LargeInputsNeitherOverflowNorLoseTheirSign) {
  for (const std::string& candidate : AcceptingCandidates<SiluAndMulOp>({DType::kF32, 4})) {
    HostTensor x(DType::kF32, {1, 8});
    x.FillWith({-1e4, -90, 1e4, 0, 1, 1, 1, 1});
    HostTensor out(DType::kF32, {1, 4});
    SiluAndMul(x, out, Backend(candidate));
    EXPECT_TRUE(AllNear(out, {0, 0, 1e4, 0}, {1e-30, 1e-6})) << candidate;
  }
}

TEST(SiluAndMul, WritesOntoTheFirstHalfOfItsInput) {
  HostTensor x(DType::kF32, {3, 40});
  std::mt19937_64 rng(6);
  x.FillNormal(rng);
  const std::vector<double> expected = Oracle(x.Values(), 20, Silu);
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
              ThrowsMessage<Error>("out: dtype is f32, accepted: bf16"));
}

}  // namespace
}  // namespace flashinfer::test
