// SPDX-License-Identifier: Apache-2.0
// RMSNorm on the CPU: what it takes, and how rows are shared.
#include "backends/cpu/rmsnorm.h"

#include <algorithm>

namespace flashinfer::cpu {
namespace {

/// Elements below which waking another thread costs more than it saves (2 µs against 0.1 ns each).
constexpr int64_t kElementsPerGrain = 16384;

}  // namespace

bool AcceptsRmsNorm(const RmsNormProblem& problem, std::string* why) {
  const auto is_float = [](DType t) {
    return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
  };
  if (!is_float(problem.dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  if (problem.dtype_weight != problem.dtype && problem.dtype_weight != DType::kF32) {
    return Refuse(why, "dtype_weight must be dtype or f32");
  }
  return true;
}

int64_t RmsNormGrain(const RmsNormParams& params) {
  return std::max<int64_t>(1, kElementsPerGrain / params.hidden_size);
}

}  // namespace flashinfer::cpu
