// SPDX-License-Identifier: Apache-2.0
// Merging many attention states at once on the CPU: what it takes, and how rows are shared.
#include "backends/cpu/merge_states.h"

namespace flashinfer::cpu {

bool AcceptsMergeStates(const MergeStatesProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  const DType t = problem.dtype;
  if (t == DType::kF32 || t == DType::kF16 || t == DType::kBF16) return true;
  return Refuse(why, "dtype must be f32, f16 or bf16");
}

int64_t MergeStatesGrain(const MergeStatesParams& params) {
  // Elements below which waking another thread costs more than it saves.
  constexpr int64_t kElementsPerGrain = 16384;
  const int64_t tokens = std::max<int64_t>(1, params.num_tokens);
  const int64_t states = params.indptr == nullptr
                             ? params.num_states
                             : params.indptr[params.num_tokens * params.indptr_stride] / tokens;
  return std::max<int64_t>(1, kElementsPerGrain / ((states + 1) * params.head_dim + 1));
}

}  // namespace flashinfer::cpu
