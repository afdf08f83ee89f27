// SPDX-License-Identifier: Apache-2.0
// The norms: every candidate against a float64 loop, their errors, and strides above 2^31.
#include "flashinfer/norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>

#include "support/cases/norm.h"
#include "support/checks/norm.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class NormCaseTest : public ::testing::TestWithParam<NormCase> {};

TEST_P(NormCaseTest, EveryCandidateMatchesTheOracle) { ExpectCaseHolds(CheckNorm, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Shared, NormCaseTest, ::testing::ValuesIn(NormCases()));

TEST(FusedAddRmsNorm, NormalisesTheSumBeforeItIsRounded) {
  // 1 + 2^-8 is the tie between 1 and the next bf16, and goes to 1. The weight puts its norm above
  // the next tie, and the norm of 1 below.
  constexpr double kSum = 1 + 0x1p-8;
  const double rms = std::sqrt((kSum * kSum + 1e6) / 2);
  HostTensor weight(DType::kF32, {2});
  weight.FillWith({rms * (1 + 0x1p-9), 1});
  for (const auto& [candidate, device] : CandidatesOnDevices<NormOp>(
           {.adds_residual = true, .dtype_weight = DType::kF32, .hidden_size = 2})) {
    DeviceCopies on(device);
    HostTensor x(DType::kBF16, {1, 2});
    x.FillWith({1, 1000});
    HostTensor residual(DType::kBF16, {1, 2});
    residual.FillWith({0x1p-8, 0});
    FusedAddRmsNorm(on(x), on(residual), on(weight), on(x),
                    {.eps = 0.0f, .backend = Backend(candidate)});
    on.Fetch();
    EXPECT_EQ(residual.At({0, 0}), 1) << candidate;
    EXPECT_EQ(x.At({0, 0}), 1 + 0x1p-7) << candidate;
  }
}

TEST(LayerNorm, AMeanFarAboveTheSpreadDoesNotCancel) {
  for (const auto& [candidate, device] : CandidatesOnDevices<NormOp>({.kind = NormKind::kLayer,
                                         .dtype = DType::kF32,
                                         .dtype_weight = DType::kF32,
                                         .dtype_out = DType::kF32,
                                         .hidden_size = 64})) {
    DeviceCopies on(device);
    HostTensor x(DType::kF32, {1, 64});
    for (int64_t i = 0; i < 64; ++i) x.Set({0, i}, 65536 + (i % 2 == 0 ? 1 : -1));
    HostTensor weight(DType::kF32, {64});
    weight.Fill(1);
    HostTensor bias(DType::kF32, {64});
    bias.Fill(0);
    HostTensor out(DType::kF32, {1, 64});
    LayerNorm(on(x), on(weight), on(bias), on(out), {.eps = 0.0f, .backend = Backend(candidate)});
    on.Fetch();
    for (int64_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(out.At({0, i}), i % 2 == 0 ? 1 : -1, 1e-6) << candidate;
    }
  }
}

TEST(RmsNorm, NanStaysInItsRowAndInFp8) {
  for (DType dtype_out : {DType::kE4M3, DType::kE5M2, DType::kF32}) {
    const NormProblem problem{.dtype = DType::kF32,
                              .dtype_weight = DType::kF32,
                              .dtype_out = dtype_out,
                              .hidden_size = 33};
    for (const auto& [candidate, device] : CandidatesOnDevices<NormOp>(problem)) {
      DeviceCopies on(device);
      HostTensor x(DType::kF32, {3, 33});
      x.Fill(1);
      x.Set({1, 32}, std::numeric_limits<double>::quiet_NaN());
      HostTensor weight(DType::kF32, {33});
      weight.Fill(1);
      HostTensor out(dtype_out, {3, 33});
      RmsNorm(on(x), on(weight), on(out), {.eps = 0.0f, .backend = Backend(candidate)});
      on.Fetch();
      for (int64_t i = 0; i < 33; ++i) {
        EXPECT_NEAR(out.At({0, i}), 1, 1e-6) << candidate;
        EXPECT_TRUE(std::isnan(out.At({1, i}))) << candidate;
        EXPECT_NEAR(out.At({2, i}), 1, 1e-6) << candidate;
      }
    }
  }
}

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
  EXPECT_THAT([&] { RmsNorm(x, weight, integers); },
              ThrowsMessage<Error>("out: dtype is i32, accepted: bf16, e4m3, e5m2"));
  EXPECT_THAT([&] { RmsNorm(x, weight, out, {.eps = -1.0f}); },
              ThrowsMessage<Error>("eps: is -1, expected 0 or more"));
  EXPECT_THAT([&] { RmsNorm(x, weight, out, {.out_scale = 0.0f}); },
              ThrowsMessage<Error>("out_scale: is 0, expected more than 0"));
  EXPECT_THAT([&] { RmsNorm(x, weight, out, {.out_scale_tensor = weight}); },
              ThrowsMessage<Error>("out_scale_tensor: dtype is bf16, accepted: f32"));
  EXPECT_THAT([&] { RmsNorm(x, weight, out, {.backend = Backend("gpu")}); },
              ThrowsMessage<Error>(HasSubstr(
                  "backend: 'gpu' is not one of auto, cuda, cuda.simt, cpu, cpu.avx512")));
  EXPECT_THROW(RmsNorm(x, weight, out, {.eps = std::numeric_limits<float>::quiet_NaN()}), Error);
}

TEST(FusedAddRmsNorm, ErrorsNameTheResidual) {
  HostTensor x(DType::kBF16, {2, 8});
  HostTensor weight(DType::kBF16, {8});
  HostTensor out(DType::kBF16, {2, 8});
  HostTensor f32(DType::kF32, {2, 8});
  EXPECT_THAT([&] { FusedAddRmsNorm(x, TensorView(), weight, out); },
              ThrowsMessage<Error>("residual: no tensor was given"));
  EXPECT_THAT([&] { FusedAddRmsNorm(x, f32, weight, out); },
              ThrowsMessage<Error>("residual: dtype is f32, accepted: bf16"));
  EXPECT_THAT([&] { FusedAddRmsNorm(x, out, weight, out); },
              ThrowsMessage<Error>("residual: shares memory with out, expected memory of its own"));
}

TEST(LayerNorm, ErrorsNameTheBias) {
  HostTensor x(DType::kBF16, {2, 8});
  HostTensor weight(DType::kF32, {8});
  HostTensor bias(DType::kBF16, {8});
  HostTensor short_bias(DType::kF32, {7});
  EXPECT_THAT([&] { LayerNorm(x, weight, bias, x); },
              ThrowsMessage<Error>("bias: dtype is bf16, accepted: f32"));
  EXPECT_THAT([&] { LayerNorm(x, weight, short_bias, x); },
              ThrowsMessage<Error>("bias: shape is [7], expected [8]"));
}

}  // namespace
}  // namespace flashinfer::test
