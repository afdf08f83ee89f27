// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking rows on the CPU.
#pragma once

#include "backends/cpu/sampling.h"
#include "ops/token_filter.h"

namespace flashinfer::cpu {

void TokenFilter(const TokenFilterParams& params, const VocabularyKernelTable& kernels);

template <VocabularyKernelsFunction kKernels>
void RunTokenFilter(const TokenFilterParams& params) {
  TokenFilter(params, kKernels());
}

}  // namespace flashinfer::cpu
