// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths on the CPU: integers, one thread.
#pragma once

#include <string>

#include "backends/cpu/isa.h"
#include "ops/page_positions.h"

namespace flashinfer::cpu {

bool AcceptsPagePositions(const PagePositionsProblem& problem, std::string* why);
void RunBatchIndicesPositions(const BatchIndicesPositionsParams& params);
void RunSeqLens(const SeqLensParams& params);

}  // namespace flashinfer::cpu
