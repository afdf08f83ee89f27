// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling on the CPU.
#pragma once

#include "backends/cpu/sampling.h"
#include "ops/chain_speculative.h"

namespace flashinfer::cpu {

void ChainSpeculative(const ChainSpeculativeParams& params, const VocabularyKernelTable& kernels);

template <VocabularyKernelsFunction kKernels>
void RunChainSpeculative(const ChainSpeculativeParams& params) {
  ChainSpeculative(params, kKernels());
}

}  // namespace flashinfer::cpu
