// SPDX-License-Identifier: Apache-2.0
// Linear layers on every candidate, against a float64 product of dequantised weights.
#pragma once

#include "support/case_run.h"
#include "support/cases/linear.h"

namespace flashinfer::test {

void CheckLinear(const LinearCase& c, CaseRun& run);

}  // namespace flashinfer::test
