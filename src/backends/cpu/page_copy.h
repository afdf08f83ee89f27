// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache, and gathering from it, on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/cpu/isa.h"
#include "backends/cpu/thread_pool.h"
#include "ops/page_copy.h"

namespace flashinfer::cpu {

bool AcceptsPageCopy(const PageCopyProblem& problem, std::string* why);

/// Tokens `begin` to `end`.
using PageCopyTokensFunction = void(const PageCopyParams& params, int64_t begin, int64_t end);

#define FLASHINFER_DECLARE(isa, name)      \
  namespace name {                         \
  PageCopyTokensFunction PageAppendTokens; \
  PageCopyTokensFunction PageGatherTokens; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

/// Tokens that one thread takes at a time.
int64_t PageCopyGrain(const PageCopyParams& params);

template <PageCopyTokensFunction kTokens>
void RunPageCopy(const PageCopyParams& params) {
  ParallelFor(params.num_tokens, PageCopyGrain(params),
              [&](int64_t begin, int64_t end) { kTokens(params, begin, end); });
}

}  // namespace flashinfer::cpu
