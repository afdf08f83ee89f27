// SPDX-License-Identifier: Apache-2.0
// Decode on tensor cores.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/attention.h"

namespace flashinfer::cuda {

bool AcceptsDecodeMma(const AttentionProblem& problem, std::string* why);

std::unique_ptr<AttentionExecutor> MakeDecodeMma();

/// Workspace of a plan for up to so many requests.
size_t DecodeMmaWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                               int64_t max_tokens);

}  // namespace flashinfer::cuda
