// SPDX-License-Identifier: Apache-2.0
// Linear layers on CUDA devices.
#pragma once

#include <memory>
#include <string>

#include "ops/linear.h"

namespace flashinfer::cuda {

bool AcceptsLinear(const LinearProblem& problem, std::string* why);
std::unique_ptr<PackedLinear> PackLinear(const PackRequest& request);

}  // namespace flashinfer::cuda
