// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales on the CPU.
#pragma once

#include <string>

#include "ops/swizzle_scales.h"

namespace flashinfer::cpu {

bool AcceptsSwizzleScales(const SwizzleScalesProblem& problem, std::string* why);

/// Copies rows in pieces, shared over threads. No vectors: it runs once a checkpoint.
void RunSwizzleScales(const SwizzleScalesParams& params);

}  // namespace flashinfer::cpu
