// SPDX-License-Identifier: Apache-2.0
// RoPE on CUDA devices.
#pragma once

#include <string>

#include "ops/rope.h"

namespace flashinfer::cuda {

bool AcceptsRope(const RopeProblem& problem, std::string* why);
void RunRope(const RopeParams& params);

}  // namespace flashinfer::cuda
