// SPDX-License-Identifier: Apache-2.0
// Look-ups of packed weights' rows on every candidate, against exact decoders of the formats.
#pragma once

#include "support/case_run.h"
#include "support/cases/gather_rows.h"

namespace flashinfer::test {

void CheckGatherRows(const GatherRowsCase& c, CaseRun& run);

}  // namespace flashinfer::test
