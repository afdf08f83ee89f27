// SPDX-License-Identifier: Apache-2.0
// Merging attention states on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/merge_state.h"

namespace flashinfer::cpu {

bool AcceptsMergeState(const MergeStateProblem& problem, std::string* why);

/// Rows `begin` to `end` of num_tokens * num_heads.
using MergeStateRowsFunction = void(const MergeStateParams& params, int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name)    \
  namespace name {                       \
  MergeStateRowsFunction MergeStateRows; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

template <MergeStateRowsFunction kRows>
void RunMergeState(const MergeStateParams& params) {
  // 16384 elements: below that, waking another thread costs more than it saves.
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, params.head_dim));
  ParallelFor(params.num_tokens * params.num_heads, grain,
              [&](int64_t begin, int64_t end) { kRows(params, begin, end); });
}

}  // namespace flashinfer::cpu
