// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/page_append.h"

namespace flashinfer::cpu {

bool AcceptsPageAppend(const PageAppendProblem& problem, std::string* why);

/// Tokens `begin` to `end`.
using PageAppendTokensFunction = void(const PageAppendParams& params, int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name)        \
  namespace name {                           \
  PageAppendTokensFunction PageAppendTokens; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Tokens that one thread takes at a time.
int64_t PageAppendGrain(const PageAppendParams& params);

template <PageAppendTokensFunction kTokens>
void RunPageAppend(const PageAppendParams& params) {
  ParallelFor(params.num_tokens, PageAppendGrain(params),
              [&](int64_t begin, int64_t end) { kTokens(params, begin, end); });
}

}  // namespace flashinfer::cpu
