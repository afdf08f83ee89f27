// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths on CUDA devices.
#pragma once

#include <string>

#include "ops/page_positions.h"

namespace flashinfer::cuda {

bool AcceptsPagePositions(const PagePositionsProblem& problem, std::string* why);
void RunBatchIndicesPositions(const BatchIndicesPositionsParams& params);
void RunSeqLens(const SeqLensParams& params);

}  // namespace flashinfer::cuda
