// SPDX-License-Identifier: Apache-2.0
// Top-k selection on every candidate, against a stable sort.
#pragma once

#include "support/case_run.h"
#include "support/cases/topk.h"

namespace flashinfer::test {

void CheckTopK(const TopKCase& c, CaseRun& run);

}  // namespace flashinfer::test
