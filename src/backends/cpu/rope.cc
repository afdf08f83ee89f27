// SPDX-License-Identifier: Apache-2.0
// RoPE on the CPU: what it takes, the frequencies, and how tokens are shared.
#include "backends/cpu/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace flashinfer::cpu {
namespace {

/// Elements below which waking another thread costs more than it saves (2 µs against 0.2 ns each).
constexpr int64_t kElementsPerGrain = 8192;

}  // namespace

bool AcceptsRope(const RopeProblem& problem, std::string* why) {
  if (problem.dtype != DType::kF32 && problem.dtype != DType::kF16 &&
      problem.dtype != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  if (problem.rotary_dim > kMaxRotaryDim) return Refuse(why, "rotary_dim must be at most 1024");
  return true;
}

void FillRopeFrequencies(const RopeParams& params, RopeFrequencies& frequencies) {
  const int64_t num_pairs = params.rotary_dim / 2;
  // Successive products instead of a power each: after i of them the error is i units of 2^-53,
  // and the pairs with many of them turn slowly.
  const double ratio =
      num_pairs == 0 ? 1 : std::pow(params.rope_theta, -1.0 / static_cast<double>(num_pairs));
  double turns = 1 / (2 * std::numbers::pi * params.rope_scale);
  for (int64_t i = 0; i < num_pairs; ++i, turns *= ratio) {
    const double factor = params.frequency_factors == nullptr ? 1 : params.frequency_factors[i];
    frequencies.turns_per_position[i] = turns / factor;
  }
}

int64_t RopeGrain(const RopeParams& params) {
  const int64_t elements = (params.q.num_heads + params.k.num_heads) * params.head_dim;
  return std::max<int64_t>(1, kElementsPerGrain / std::max<int64_t>(1, elements));
}

}  // namespace flashinfer::cpu
