// SPDX-License-Identifier: Apache-2.0
// Latent attention on CUDA cores, in f32.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/mla.h"

namespace flashinfer::cuda {

bool AcceptsMlaSimt(const MlaProblem& problem, std::string* why);

std::unique_ptr<MlaExecutor> MakeMlaSimt();

/// Workspace of a plan for up to so many requests, of so many query tokens together.
size_t MlaSimtWorkspaceBytes(const MlaProblem& problem, int64_t max_requests, int64_t max_tokens);

}  // namespace flashinfer::cuda
