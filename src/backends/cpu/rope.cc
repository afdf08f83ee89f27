// SPDX-License-Identifier: Apache-2.0
// RoPE on the CPU: what it takes, the frequencies, and how tokens are shared.
#include "backends/cpu/rope.h"

#include <algorithm>

namespace flashinfer::cpu {
namespace {

/// Elements below which waking another thread costs more than it saves (2 µs against 0.2 ns each).
constexpr int64_t kElementsPerGrain = 8192;

}  // namespace

bool AcceptsRope(const RopeProblem& problem, std::string* why) {
  if (problem.arch != 0) return Refuse(why, "tensors are on a CUDA device");
  const DType dtype = problem.dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  if (problem.dtype_out != dtype && problem.dtype_out != DType::kE4M3 &&
      problem.dtype_out != DType::kE5M2) {
    return Refuse(why, "dtype_out must be dtype, e4m3 or e5m2");
  }
  if (problem.rotary_dim > kMaxRotaryDim) return Refuse(why, "rotary_dim must be at most 1024");
  return true;
}

void FillRopeFrequencies(const RopeParams& params, RopeFrequencies& frequencies) {
  if (params.cos_sin_cache != nullptr) return;
  double* turns = frequencies.turns_per_position;
  FillTurnsPerPosition(params.rule, params.rotary_dim, turns);
  const float* factors = params.rule.frequency_factors;
  if (factors == nullptr) return;
  for (int64_t i = 0; i < params.rotary_dim / 2; ++i) turns[i] /= static_cast<double>(factors[i]);
}

int64_t RopeRequestOf(const RopePositions& positions, int64_t token) {
  if (positions.indptr == nullptr) return 0;
  const int32_t* end = positions.indptr + positions.num_requests + 1;
  return std::upper_bound(positions.indptr, end, token) - positions.indptr - 1;
}

int64_t RopeGrain(const RopeParams& params) {
  int64_t elements = 0;
  for (const RopeHeads* heads : {&params.q, &params.k, &params.q_nope, &params.k_nope}) {
    elements += heads->num_heads * heads->head_dim;
  }
  return std::max<int64_t>(1, kElementsPerGrain / std::max<int64_t>(1, elements));
}

}  // namespace flashinfer::cpu
