// SPDX-License-Identifier: Apache-2.0
// Merging many attention states at once on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/merge_states.h"

namespace flashinfer::cpu {

bool AcceptsMergeStates(const MergeStatesProblem& problem, std::string* why);

/// Rows `begin` to `end` of num_tokens * num_heads.
using MergeStatesRowsFunction = void(const MergeStatesParams& params, int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name)      \
  namespace name {                         \
  MergeStatesRowsFunction MergeStatesRows; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Rows that one thread takes at a time.
int64_t MergeStatesGrain(const MergeStatesParams& params);

template <MergeStatesRowsFunction kRows>
void RunMergeStates(const MergeStatesParams& params) {
  ParallelFor(params.num_tokens * params.num_heads, MergeStatesGrain(params),
              [&](int64_t begin, int64_t end) { kRows(params, begin, end); });
}

}  // namespace flashinfer::cpu
