// SPDX-License-Identifier: Apache-2.0
// Dense matrix products on every candidate, against a float64 loop.
#pragma once

#include "support/case_run.h"
#include "support/cases/gemm.h"

namespace flashinfer::test {

void CheckGemm(const GemmCase& c, CaseRun& run);

}  // namespace flashinfer::test
