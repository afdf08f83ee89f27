// SPDX-License-Identifier: Apache-2.0
// Merging attention states on the CPU: what it takes.
#include "backends/cpu/merge_state.h"

namespace flashinfer::cpu {

bool AcceptsMergeState(const MergeStateProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  const DType t = problem.dtype;
  if (t == DType::kF32 || t == DType::kF16 || t == DType::kBF16) return true;
  return Refuse(why, "dtype must be f32, f16 or bf16");
}

}  // namespace flashinfer::cpu
