// SPDX-License-Identifier: Apache-2.0
// Batch indices, positions and sequence lengths on every candidate, token by token.
#pragma once

#include "support/case_run.h"
#include "support/cases/page_positions.h"

namespace flashinfer::test {

void CheckBatchIndicesPositions(const BatchIndicesPositionsCase& c, CaseRun& run);
void CheckSeqLens(const SeqLensCase& c, CaseRun& run);

}  // namespace flashinfer::test
