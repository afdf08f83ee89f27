// SPDX-License-Identifier: Apache-2.0
// Draws on every candidate, against a sort in float64 with the same uniform.
#pragma once

#include "support/case_run.h"
#include "support/cases/sampling.h"

namespace flashinfer::test {

void CheckSampling(const SamplingCase& c, CaseRun& run);

}  // namespace flashinfer::test
