// SPDX-License-Identifier: Apache-2.0
// Packing of truth values into bits on CUDA devices.
#pragma once

#include <string>

#include "ops/packbits.h"

namespace flashinfer::cuda {

bool AcceptsPackBits(const PackBitsProblem& problem, std::string* why);
void RunPackBits(const PackBitsParams& params);

}  // namespace flashinfer::cuda
