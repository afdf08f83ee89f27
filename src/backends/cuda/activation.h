// SPDX-License-Identifier: Apache-2.0
// Gated activations on CUDA devices.
#pragma once

#include <string>

#include "ops/activation.h"

namespace flashinfer::cuda {

bool AcceptsActivation(const ActivationProblem& problem, std::string* why);
void RunActivation(const ActivationParams& params);

}  // namespace flashinfer::cuda
