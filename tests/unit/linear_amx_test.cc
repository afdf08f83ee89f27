// SPDX-License-Identifier: Apache-2.0
// Linear layers with AMX, by emulated tiles, against a float64 loop; and when AMX may run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/amx.h"
#include "support/compare.h"
#include "support/host_tensor.h"

namespace flashinfer::cpu {

namespace amx_emulated {
extern const LinearKernels kLinearKernels;
}

// For what tiles do not multiply, which no test here asks for.
namespace avx512_bf16 {
const LinearKernels kLinearKernels{
    2, 12, true, [](const LinearInput&, int64_t, int64_t, const LinearActivations&) {},
    [](const LinearPanelTask&) { FAIL() << "not a panel of bf16"; }};
const GemmKernels kGemmKernels{kLinearKernels,
                               [](const FewRowsTask&) { FAIL() << "a product of few rows"; }};
}  // namespace avx512_bf16

namespace {

using test::HostTensor;

void ExpectRight(int64_t num_tokens, int64_t cols, int64_t rows, DType dtype) {
  std::mt19937_64 rng(static_cast<uint64_t>(num_tokens * cols + rows));
  HostTensor x(dtype, {num_tokens, cols}, {cols + 3, 1});
  HostTensor weight(DType::kBF16, {rows, cols});
  x.FillNormal(rng);
  weight.FillNormal(rng, 1 / std::sqrt(static_cast<double>(cols)));
  const WeightView source{weight.view().data(), WeightFormat::kBF16, rows, cols};
  const auto packed =
      PackLinearWith(amx_emulated::kLinearKernels, {.sources = std::span(&source, 1)});
  const HostTensor out(DType::kF32, {num_tokens, rows}, {rows + 5, 1});
  packed->Run({.x = x.view().data(),
               .out = out.view().data(),
               .bias = nullptr,
               .residual = nullptr,
               .num_tokens = num_tokens,
               .x_stride = cols + 3,
               .out_stride = rows + 5,
               .residual_stride = 0,
               .dtype_x = dtype,
               .dtype_out = DType::kF32,
               .scale = 1.0f});
  std::vector<double> expected;
  for (int64_t t = 0; t < num_tokens; ++t) {
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < cols; ++k) sum += x.At({t, k}) * weight.At({row, k});
      expected.push_back(sum);
    }
  }
  // Tiles multiply bf16: other activations are rounded to it.
  EXPECT_TRUE(test::AllNear(out, expected,
                            test::ToleranceOf(dtype == DType::kBF16 ? DType::kF32 : DType::kBF16)))
      << num_tokens << " tokens of " << cols << ", " << rows << " rows";
}

TEST(LinearAmx, EmulatedTilesMatchTheOracle) {
  if (!IsaAvailable<Isa::kAvx512Bf16>(nullptr)) GTEST_SKIP() << "tiles come with AVX-512 BF16";
  for (int64_t num_tokens : {1, 5, 16, 17, 48, 100}) {
    for (int64_t cols : {1, 2, 31, 32, 33, 100, 576})
      ExpectRight(num_tokens, cols, 40, DType::kBF16);
    for (int64_t rows : {1, 16, 17, 32, 64}) ExpectRight(num_tokens, 64, rows, DType::kBF16);
  }
  ExpectRight(300, 96, 48, DType::kF32);
  ExpectRight(50, 97, 48, DType::kF16);
}

TEST(LinearAmx, SaysWhyItDoesNotRun) {
  std::string why;
  if (AmxAvailable(&why)) GTEST_SKIP() << "this machine has AMX";
  EXPECT_THAT(why, ::testing::AnyOf(::testing::HasSubstr("AMX"), ::testing::HasSubstr("amx_bf16"),
                                    ::testing::HasSubstr("tiles")));
}

}  // namespace
}  // namespace flashinfer::cpu
