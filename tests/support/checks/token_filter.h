// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking on every candidate, against a sort in float64.
#pragma once

#include "support/case_run.h"
#include "support/cases/token_filter.h"

namespace flashinfer::test {

void CheckTokenFilter(const TokenFilterCase& c, CaseRun& run);

}  // namespace flashinfer::test
