// SPDX-License-Identifier: Apache-2.0
// Decode on CUDA cores.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/attention.h"

namespace flashinfer::cuda {

bool AcceptsDecodeSimt(const AttentionProblem& problem, std::string* why);

std::unique_ptr<AttentionExecutor> MakeDecodeSimt();

/// Workspace of a plan for up to so many requests.
size_t DecodeSimtWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                                int64_t max_tokens);

}  // namespace flashinfer::cuda
