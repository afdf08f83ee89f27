// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales on every candidate, against the header's formulas.
#pragma once

#include "support/case_run.h"
#include "support/cases/swizzle_scales.h"

namespace flashinfer::test {

void CheckSwizzleScales(const SwizzleScalesCase& c, CaseRun& run);

}  // namespace flashinfer::test
