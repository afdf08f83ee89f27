// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling on CUDA devices.
#pragma once

#include "ops/chain_speculative.h"

namespace flashinfer::cuda {

void RunChainSpeculative(const ChainSpeculativeParams& params);

}  // namespace flashinfer::cuda
