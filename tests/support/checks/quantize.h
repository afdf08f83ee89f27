// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back on every candidate, against float64 loops.
#pragma once

#include "support/case_run.h"
#include "support/cases/quantize.h"

namespace flashinfer::test {

void CheckQuantize(const QuantizeCase& c, CaseRun& run);

}  // namespace flashinfer::test
