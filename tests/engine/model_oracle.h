// SPDX-License-Identifier: Apache-2.0
// The forward pass of a dense decoder as naive loops in double precision.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/checkpoint.h"

namespace flashinfer::test {

/// Logits that follow each token of one sequence: [num_tokens][vocab_size].
std::vector<std::vector<double>> OracleLogits(const engine::Checkpoint& model,
                                              std::span<const int32_t> tokens);

}  // namespace flashinfer::test
