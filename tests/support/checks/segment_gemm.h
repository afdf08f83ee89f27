// SPDX-License-Identifier: Apache-2.0
// Products of row segments on every candidate, against a float64 loop.
#pragma once

#include "support/case_run.h"
#include "support/cases/segment_gemm.h"

namespace flashinfer::test {

void CheckSegmentGemm(const SegmentGemmCase& c, CaseRun& run);

}  // namespace flashinfer::test
