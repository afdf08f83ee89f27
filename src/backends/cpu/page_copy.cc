// SPDX-License-Identifier: Apache-2.0
// Copying to and from a paged KV cache on the CPU: what it takes, and how tokens are shared.
#include "backends/cpu/page_copy.h"

namespace flashinfer::cpu {

bool AcceptsPageCopy(const PageCopyProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  if (problem.dtype == problem.dtype_kv) return true;
  const auto is_float = [](DType t) {
    return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
  };
  if (!is_float(problem.dtype)) return Refuse(why, "dtype must be f32, f16, bf16 or dtype_kv");
  const DType kv = problem.dtype_kv;
  if (!is_float(kv) && kv != DType::kE4M3 && kv != DType::kE5M2 && kv != DType::kI8) {
    return Refuse(why, "dtype_kv must be f32, f16, bf16, e4m3, e5m2, i8 or dtype");
  }
  return true;
}

int64_t PageCopyGrain(const PageCopyParams& params) {
  // Elements below which waking another thread costs more than it saves.
  constexpr int64_t kElementsPerGrain = 16384;
  const int64_t elements = params.num_heads * (params.parts[0].head_dim + params.parts[1].head_dim);
  return std::max<int64_t>(1, kElementsPerGrain / std::max<int64_t>(1, elements));
}

}  // namespace flashinfer::cpu
