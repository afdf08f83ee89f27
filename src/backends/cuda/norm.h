// SPDX-License-Identifier: Apache-2.0
// The norms on CUDA devices.
#pragma once

#include <string>

#include "ops/norm.h"

namespace flashinfer::cuda {

bool AcceptsNorm(const NormProblem& problem, std::string* why);
void RunNorm(const NormParams& params);

}  // namespace flashinfer::cuda
