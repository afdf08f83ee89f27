// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back on CUDA devices.
#pragma once

#include <string>

#include "ops/quantize.h"

namespace flashinfer::cuda {

bool AcceptsQuantize(const QuantizeProblem& problem, std::string* why);
void RunQuantize(const QuantizeParams& params);

}  // namespace flashinfer::cuda
