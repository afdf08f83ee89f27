// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling on every candidate, against a loop in float64.
#pragma once

#include "support/case_run.h"
#include "support/cases/chain_speculative.h"

namespace flashinfer::test {

void CheckChainSpeculative(const ChainSpeculativeCase& c, CaseRun& run);

}  // namespace flashinfer::test
