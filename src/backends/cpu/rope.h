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

/// What every token shares: turns that pair i advances per position; empty with a cache.
struct RopeFrequencies {
  double turns_per_position[kMaxRotaryDim / 2];
};
void FillRopeFrequencies(const RopeParams& params, RopeFrequencies& frequencies);

/// The request of a token, by bisection in indptr.
int64_t RopeRequestOf(const RopePositions& positions, int64_t token);

/// Tokens `begin` to `end`, the first of which belongs to `request` where offsets give positions.
struct RopeRange {
  int64_t begin;
  int64_t end;
  int64_t request;
};
using RopeTokensFunction = void(const RopeParams& params, const RopeFrequencies& frequencies,
                                const RopeRange& range);

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
  ParallelFor(params.num_tokens, RopeGrain(params), [&](int64_t begin, int64_t end) {
    kTokens(params, frequencies, {begin, end, RopeRequestOf(params.positions, begin)});
  });
}

}  // namespace flashinfer::cpu
