// SPDX-License-Identifier: Apache-2.0
// The norms on the CPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/norm.h"

namespace flashinfer::cpu {

bool AcceptsNorm(const NormProblem& problem, std::string* why);

/// Rows `begin` to `end` of num_outer * num_inner.
using NormRangeFunction = void(const NormParams& params, int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name) \
  namespace name {                    \
  NormRangeFunction NormRowRange;     \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Rows that one thread takes at a time.
int64_t NormGrain(const NormParams& params);

template <NormRangeFunction kRange>
void RunNorm(const NormParams& params) {
  ParallelFor(params.num_outer * params.num_inner, NormGrain(params),
              [&](int64_t begin, int64_t end) { kRange(params, begin, end); });
}

}  // namespace flashinfer::cpu
