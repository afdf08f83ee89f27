// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales, and back, on CUDA devices.
#pragma once

#include <string>

#include "ops/quantize_blocks.h"

namespace flashinfer::cuda {

bool AcceptsQuantizeBlocks(const QuantizeBlocksProblem& problem, std::string* why);
void RunQuantizeBlocks(const QuantizeBlocksParams& params);

}  // namespace flashinfer::cuda
