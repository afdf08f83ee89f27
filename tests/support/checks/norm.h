// SPDX-License-Identifier: Apache-2.0
// The norms on every candidate, against a float64 loop.
#pragma once

#include "support/case_run.h"
#include "support/cases/norm.h"

namespace flashinfer::test {

void CheckNorm(const NormCase& c, CaseRun& run);

}  // namespace flashinfer::test
