// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales on CUDA devices.
#pragma once

#include <string>

#include "ops/swizzle_scales.h"

namespace flashinfer::cuda {

bool AcceptsSwizzleScales(const SwizzleScalesProblem& problem, std::string* why);
void RunSwizzleScales(const SwizzleScalesParams& params);

}  // namespace flashinfer::cuda
