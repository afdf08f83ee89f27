// SPDX-License-Identifier: Apache-2.0
// Prefill on CUDA cores, in f32.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/attention.h"

namespace flashinfer::cuda {

bool AcceptsPrefillSimt(const AttentionProblem& problem, std::string* why);

std::unique_ptr<AttentionExecutor> MakePrefillSimt();

/// Workspace of a plan for up to so many requests, of so many query tokens together.
size_t PrefillSimtWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                                 int64_t max_tokens);

}  // namespace flashinfer::cuda
