// SPDX-License-Identifier: Apache-2.0
// Top-k selection on the CPU.
#pragma once

#include "backends/cpu/sampling.h"
#include "ops/topk.h"

namespace flashinfer::cpu {

void TopK(const TopKParams& params, const VocabularyKernelTable& kernels);

template <VocabularyKernelsFunction kKernels>
void RunTopK(const TopKParams& params) {
  TopK(params, kKernels());
}

}  // namespace flashinfer::cpu
