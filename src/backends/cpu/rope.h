// SPDX-License-Identifier: Apache-2.0
// RoPE on the CPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/rope.h"

namespace flashinfer::cpu {

bool AcceptsRope(const RopeProblem& problem, std::string* why);

/// What every token shares: turns (angle / 2π) that pair i advances per position. In double, so
/// that angles of positions up to 2^31 are right to a float.
struct RopeFrequencies {
  double turns_per_position[kMaxRotaryDim / 2];
};
void FillRopeFrequencies(const RopeParams& params, RopeFrequencies& frequencies);

/// Tokens `begin` to `end`.
using RopeTokensFunction = void(const RopeParams& params, const RopeFrequencies& frequencies,
                                int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name) \
  namespace name {                    \
  RopeTokensFunction RopeTokens;      \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Tokens that one thread takes at a time.
int64_t RopeGrain(const RopeParams& params);

template <RopeTokensFunction kTokens>
void RunRope(const RopeParams& params) {
  RopeFrequencies frequencies;
  FillRopeFrequencies(params, frequencies);
  ParallelFor(params.num_tokens, RopeGrain(params),
              [&](int64_t begin, int64_t end) { kTokens(params, frequencies, begin, end); });
}

}  // namespace flashinfer::cpu
