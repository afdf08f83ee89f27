// SPDX-License-Identifier: Apache-2.0
// The norms: every candidate against a float64 loop, their errors, and strides above 2^31.
#include "flashinfer/norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/candidates.h"
#include "support/cases/norm.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/host_tensor.h"

namespace flashinfer::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kEps = 1e-5;

double LargestOf(DType dtype) {
  if (dtype == DType::kE4M3) return 448;
  return dtype == DType::kE5M2 ? 57344 : std::numeric_limits<double>::infinity();
}

/// One row; `x` is what is normalised, the sum with the residual if there is one.
void NormRow(const NormCase& c, const std::vector<double>& weight, const std::vector<double>& bias,
             const double* x, double* out) {
  const size_t size = weight.size();
  double mean = 0;
  if (c.kind == NormKind::kLayer) {
    for (size_t i = 0; i < size; ++i) mean += x[i] / static_cast<double>(size);
  }
  double square = 0;
  for (size_t i = 0; i < size; ++i) {
    square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(size);
  }
  for (size_t i = 0; i < size; ++i) {
    double y = (x[i] - mean) / std::sqrt(square + kEps);
    y *= c.kind == NormKind::kGemma ? 1 + weight[i] : weight[i];
    if (c.kind == NormKind::kLayer) y += bias[i];
    const double largest = LargestOf(c.dtype_out);
    out[i] = std::clamp(y / static_cast<double>(c.out_scale), -largest, largest);
  }
}

HostTensor MakeRows(const NormCase& c, DType dtype) {
  const int64_t row = c.hidden_size + c.row_padding;
  if (c.num_heads == 0) return {dtype, {c.num_rows, c.hidden_size}, {row, 1}, c.offset};
  return {dtype,
          {c.num_rows, c.num_heads, c.hidden_size},
          {c.num_heads * row + c.row_padding, row, 1},
          c.offset};
}

/// Sums, and what the residual holds after: their rounding to its dtype.
struct Sums {
  std::vector<double> exact;
  std::vector<double> rounded;
};

Sums AddResidual(std::vector<double> x, const HostTensor& residual) {
  Sums sums{.exact = std::move(x), .rounded = {}};
  const std::vector<double> values = residual.Values();
  HostTensor rounded(residual.view().dtype(), {1});
  sums.rounded.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    sums.exact[i] += values[i];
    rounded.Set({0}, sums.exact[i]);
    sums.rounded.push_back(rounded.At({0}));
  }
  return sums;
}

struct Inputs {
  HostTensor weight;
  HostTensor bias;
};

void RunNorm(const NormCase& c, const Inputs& in, const HostTensor& x, const HostTensor& residual,
             const HostTensor& out, DeviceCopies& on, const NormOptions& options) {
  const TensorView weight = on(in.weight);
  if (c.kind == NormKind::kLayer) return LayerNorm(on(x), weight, on(in.bias), on(out), options);
  const bool is_gemma = c.kind == NormKind::kGemma;
  if (c.adds_residual) {
    const auto run = is_gemma ? GemmaFusedAddRmsNorm : FusedAddRmsNorm;
    return run(on(x), on(residual), weight, on(out), options, {});
  }
  (is_gemma ? GemmaRmsNorm : RmsNorm)(on(x), weight, on(out), options, {});
}

class NormCaseTest : public ::testing::TestWithParam<NormCase> {};

TEST_P(NormCaseTest, EveryCandidateMatchesTheOracle) {
  const NormCase& c = GetParam();
  std::mt19937_64 rng(7);
  Inputs in{HostTensor(c.dtype_weight, {c.hidden_size}),
            HostTensor(c.dtype_weight, {c.hidden_size})};
  in.weight.FillNormal(rng);
  in.bias.FillNormal(rng);
  HostTensor scale(DType::kF32, {1});
  scale.Fill(static_cast<double>(c.out_scale));
  bool scale_from_tensor = false;
  for (const auto& [candidate, device] : CandidatesOnDevices<NormOp>(ProblemOf(c))) {
    DeviceCopies on(device);
    SCOPED_TRACE(FieldsText(candidate, c));
    HostTensor x = MakeRows(c, c.dtype);
    HostTensor residual = MakeRows(c, c.dtype);
    x.FillNormal(rng);
    Sums sums{.exact = x.Values(), .rounded = {}};
    if (c.adds_residual) sums = AddResidual(x.Values(), residual.FillNormal(rng));
    std::vector<double> expected(sums.exact.size());
    for (size_t at = 0; at < expected.size(); at += static_cast<size_t>(c.hidden_size)) {
      NormRow(c, in.weight.Values(), in.bias.Values(), &sums.exact[at], &expected[at]);
    }
    HostTensor separate = MakeRows(c, c.dtype_out);
    const HostTensor& out = c.in_place ? x : separate;
    NormOptions options{
        .eps = static_cast<float>(kEps), .out_scale = c.out_scale, .backend = Backend(candidate)};
    if (scale_from_tensor) {
      options.out_scale = 7.0f;  // not to be read
      options.out_scale_tensor = on(scale);
    }
    scale_from_tensor = !scale_from_tensor;
    RunNorm(c, in, x, residual, out, on, options);
    on.Fetch();
    EXPECT_TRUE(AllNear(out, expected, ToleranceOf(c.dtype_out, c.hidden_size)));
    if (c.adds_residual) {
      EXPECT_TRUE(AllNear(residual, sums.rounded, {0, 0}));
    }
  }
}

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
              ThrowsMessage<Error>("residual: is x or out, expected memory of its own"));
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
