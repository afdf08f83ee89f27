// SPDX-License-Identifier: Apache-2.0
// Decode on tensor cores.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/attention.h"

namespace flashinfer::cuda {

bool AcceptsDecodeMma(const AttentionProblem& problem, std::string* why);

/// Where CUDA cores keep up with the memory, or a variant may be of a kind that needs them. H200,
/// 2026-11-30, B64 of 8k tokens with groups of 2, 4, 5 and 8 heads: 511 to 513 µs, CUDA cores 485,
/// 493, 600 and 601; of e4m3 with 2, 4 and 8: 276 to 279, and 283, 365 and 633.
bool DecodeMmaYields(const AttentionProblem& problem);

std::unique_ptr<AttentionExecutor> MakeDecodeMma();

/// Workspace of a plan for up to so many requests.
size_t DecodeMmaWorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                               int64_t max_tokens);

}  // namespace flashinfer::cuda
