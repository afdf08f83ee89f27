// SPDX-License-Identifier: Apache-2.0
// Packing of bits on every candidate, against a loop over bits.
#pragma once

#include "support/case_run.h"
#include "support/cases/packbits.h"

namespace flashinfer::test {

void CheckPackBits(const PackBitsCase& c, CaseRun& run);

}  // namespace flashinfer::test
