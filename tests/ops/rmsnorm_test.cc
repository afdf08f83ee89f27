// SPDX-License-Identifier: Apache-2.0
// RMSNorm: every candidate against a float64 loop, its errors, and strides above 2^31.
#include "flashinfer/norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>

#include "ops/rmsnorm.h"
#include "support/candidates.h"
#include "support/cases/rmsnorm.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<double> Oracle(const std::vector<double>& x, const std::vector<double>& weight,
                           double eps) {
  const size_t size = weight.size();
  std::vector<double> out(x.size());
  for (size_t row = 0; row * size < x.size(); ++row) {
    double sum = 0;
    for (size_t i = 0; i < size; ++i) sum += x[row * size + i] * x[row * size + i];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(size) + eps);
    for (size_t i = 0; i < size; ++i) out[row * size + i] = x[row * size + i] * scale * weight[i];
  }
  return out;
}

HostTensor MakeX(const RmsNormCase& c) {
  const int64_t row = c.hidden_size + c.row_padding;
  if (c.num_heads == 0) return {c.dtype, {c.num_rows, c.hidden_size}, {row, 1}, c.offset};
  return {c.dtype,
          {c.num_rows, c.num_heads, c.hidden_size},
          {c.num_heads * row + c.row_padding, row, 1},
          c.offset};
}

class RmsNormCaseTest : public ::testing::TestWithParam<RmsNormCase> {};

TEST_P(RmsNormCaseTest, EveryCandidateMatchesTheOracle) {
  const RmsNormCase& c = GetParam();
  std::mt19937_64 rng(7);
  HostTensor weight(c.dtype_weight, {c.hidden_size});
  weight.FillNormal(rng);
  const RmsNormProblem problem{c.dtype, c.dtype_weight, c.hidden_size};
  for (const std::string& candidate : AcceptingCandidates<RmsNormOp>(problem)) {
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor x = MakeX(c);
    x.FillNormal(rng);
    const std::vector<double> expected = Oracle(x.Values(), weight.Values(), 1e-5);
    HostTensor separate = MakeX(c);
    const HostTensor& out = c.in_place ? x : separate;
    RmsNorm(x, weight, out, {.eps = 1e-5f, .backend = Backend(candidate)});
    EXPECT_TRUE(AllNear(out, expected, ToleranceOf(c.dtype, c.hidden_size)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shared, RmsNormCaseTest, ::testing::ValuesIn(RmsNormCases()));

TEST(RmsNorm, RowStrideBeyond32Bits) {
  constexpr int64_t kStride = (int64_t{1} << 31) + 8;
  constexpr size_t kBytes = (kStride + 128) * 2;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const TensorView x(memory, DType::kF16, {2, 128}, {kStride, 1});
  for (int64_t i = 0; i < 128; ++i) x[1].data_as<uint16_t>()[i] = 0x4000;  // 2.0
  HostTensor weight(DType::kF16, {128});
  weight.Fill(3.0);
  HostTensor out(DType::kF16, {2, 128});
  RmsNorm(x, weight, out, {.eps = 0.0f});
  EXPECT_NEAR(out.At({1, 127}), 3.0, 2e-3);
  munmap(memory, kBytes);
}

TEST(RmsNorm, ErrorsNameArgumentValueAndWhatIsAccepted) {
  HostTensor x(DType::kBF16, {2, 8});
  HostTensor weight(DType::kBF16, {8});
  HostTensor wrong_weight(DType::kF16, {8});
  HostTensor short_weight(DType::kBF16, {7});
  HostTensor out(DType::kBF16, {2, 8});
  HostTensor integers(DType::kI32, {2, 8});
  EXPECT_THAT([&] { RmsNorm(TensorView(), weight, out); },
              ThrowsMessage<Error>(HasSubstr("x: no tensor was given")));
  EXPECT_THAT([&] { RmsNorm(integers, weight, out); },
              ThrowsMessage<Error>("x: dtype is i32, accepted: f32, f16, bf16"));
  EXPECT_THAT([&] { RmsNorm(x, wrong_weight, out); },
              ThrowsMessage<Error>("weight: dtype is f16, accepted: bf16, f32"));
  EXPECT_THAT([&] { RmsNorm(x, short_weight, out); },
              ThrowsMessage<Error>("weight: shape is [7], expected [8]"));
  EXPECT_THAT([&] { RmsNorm(x, weight, out, {.eps = -1.0f}); },
              ThrowsMessage<Error>("eps: is -1, expected 0 or more"));
  EXPECT_THAT(
      [&] { RmsNorm(x, weight, out, {.backend = Backend("gpu")}); },
      ThrowsMessage<Error>(HasSubstr("backend: 'gpu' is not one of auto, cpu, cpu.avx512_bf16")));
  EXPECT_THROW(RmsNorm(x, weight, out, {.eps = std::numeric_limits<float>::quiet_NaN()}), Error);
}

}  // namespace
}  // namespace flashinfer::test
