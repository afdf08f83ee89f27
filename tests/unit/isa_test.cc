// SPDX-License-Identifier: Apache-2.0
// The switch FLASHINFER_CPU_ISA, which this runs under with each value: what is chosen, and that
// whole calls give what float64 gives.
#include "backends/cpu/isa.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "flashinfer/backend.h"
#include "flashinfer/cpu.h"
#include "flashinfer/gemm.h"
#include "flashinfer/norm.h"
#include "support/host_tensor.h"

namespace flashinfer {
namespace {

std::string Switch() {
  const char* value = std::getenv("FLASHINFER_CPU_ISA");
  return value == nullptr ? "" : value;
}

bool IsHere(std::string_view isa) {
  if (isa == "scalar") return true;
  if (isa == "avx2") return __builtin_cpu_supports("avx2") != 0;
  if (isa == "avx512") return __builtin_cpu_supports("avx512bw") != 0;
  return __builtin_cpu_supports("avx512bf16") != 0;
}

TEST(CpuIsaSwitch, ChoosesTheCandidatesOfThatInstructionSet) {
  const std::string isa = Switch();
  if (isa.empty()) GTEST_SKIP() << "FLASHINFER_CPU_ISA is not set";
  if (!IsHere(isa)) GTEST_SKIP() << "this CPU has no " << isa;
  EXPECT_EQ(CpuIsaName(), isa);
  for (const char* problem :
       {"norm", "rope", "activation", "batch_decode", "batch_prefill", "batch_mla", "gemm",
        "sampling", "topk", "quantize", "merge_states", "append_paged_kv_cache"}) {
    const Explanation explanation = Explain(problem);
    ASSERT_NE(explanation.chosen(), nullptr) << problem;
    EXPECT_EQ(explanation.chosen()->candidate, "cpu." + isa) << problem;
  }
}

TEST(CpuIsaSwitch, CallsThatSayNothingOfABackendGiveWhatFloat64Gives) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  test::HostTensor x(DType::kF32, {5, 70}), weight(DType::kF32, {70}), normed(DType::kF32, {5, 70});
  test::HostTensor b(DType::kF32, {37, 70}), product(DType::kF32, {5, 37});
  x.FillNormal(rng);
  weight.FillNormal(rng);
  b.FillNormal(rng);
  RmsNorm(x, weight, normed, {.eps = 1e-5f});
  Gemm(x, b, product);
  for (int64_t i = 0; i < 5; ++i) {
    double squares = 0;
    for (int64_t k = 0; k < 70; ++k) squares += x.At({i, k}) * x.At({i, k});
    const double factor = 1 / std::sqrt(squares / 70 + 1e-5);
    for (int64_t k = 0; k < 70; ++k) {
      EXPECT_NEAR(normed.At({i, k}), x.At({i, k}) * factor * weight.At({k}), 1e-5);
    }
    for (int64_t j = 0; j < 37; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 70; ++k) sum += x.At({i, k}) * b.At({j, k});
      EXPECT_NEAR(product.At({i, j}), sum, 1e-4);
    }
  }
}

}  // namespace
}  // namespace flashinfer
