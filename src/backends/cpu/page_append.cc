// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache on the CPU: what it takes, and how tokens are shared.
#include "backends/cpu/page_append.h"

namespace flashinfer::cpu {
namespace {

/// Elements below which waking another thread costs more than it saves.
constexpr int64_t kElementsPerGrain = 16384;

}  // namespace

bool AcceptsPageAppend(const PageAppendProblem& problem, std::string* why) {
  const auto is_float = [](DType t) {
    return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
  };
  if (!is_float(problem.dtype)) return Refuse(why, "dtype must be f32, f16 or bf16");
  if (!is_float(problem.dtype_kv)) return Refuse(why, "dtype_kv must be f32, f16 or bf16");
  return true;
}

int64_t PageAppendGrain(const PageAppendParams& params) {
  const int64_t elements = params.num_heads * (params.rows[0].head_dim + params.rows[1].head_dim);
  return std::max<int64_t>(1, kElementsPerGrain / std::max<int64_t>(1, elements));
}

}  // namespace flashinfer::cpu
