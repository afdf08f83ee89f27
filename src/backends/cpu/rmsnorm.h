// SPDX-License-Identifier: Apache-2.0
// RMSNorm on the CPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/rmsnorm.h"

namespace flashinfer::cpu {

bool AcceptsRmsNorm(const RmsNormProblem& problem, std::string* why);

/// Rows `begin` to `end` of num_outer * num_inner.
using RmsNormRowsFunction = void(const RmsNormParams& params, int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name) \
  namespace name {                    \
  RmsNormRowsFunction RmsNormRows;    \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Rows that one thread takes at a time.
int64_t RmsNormGrain(const RmsNormParams& params);

template <RmsNormRowsFunction kRows>
void RunRmsNorm(const RmsNormParams& params) {
  ParallelFor(params.num_outer * params.num_inner, RmsNormGrain(params),
              [&](int64_t begin, int64_t end) { kRows(params, begin, end); });
}

}  // namespace flashinfer::cpu
