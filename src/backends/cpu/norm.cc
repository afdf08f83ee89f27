// SPDX-License-Identifier: Apache-2.0
// The norms on the CPU: what they take, and how rows are shared.
#include "backends/cpu/norm.h"

#include <algorithm>

namespace flashinfer::cpu {
namespace {

/// Elements below which waking another thread costs more than it saves (2 µs against 0.1 ns each).
constexpr int64_t kElementsPerGrain = 16384;

}  // namespace

bool AcceptsNorm(const NormProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  const DType dtype = problem.dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  if (problem.dtype_weight != dtype && problem.dtype_weight != DType::kF32) {
    return Refuse(why, "dtype_weight must be dtype or f32");
  }
  if (problem.dtype_out != dtype && problem.dtype_out != DType::kE4M3 &&
      problem.dtype_out != DType::kE5M2) {
    return Refuse(why, "dtype_out must be dtype, e4m3 or e5m2");
  }
  if (problem.kind == NormKind::kLayer && problem.adds_residual) {
    return Refuse(why, "kind=layer takes no residual");
  }
  return true;
}

int64_t NormGrain(const NormParams& params) {
  return std::max<int64_t>(1, kElementsPerGrain / params.hidden_size);
}

}  // namespace flashinfer::cpu
