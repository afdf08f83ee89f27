// SPDX-License-Identifier: Apache-2.0
// Softmax and argmax on every candidate, against float64 loops.
#pragma once

#include "support/case_run.h"
#include "support/cases/softmax.h"

namespace flashinfer::test {

/// With a temperature per row.
void CheckSoftmax(const VocabularyCase& c, CaseRun& run);
/// With many ties.
void CheckArgMax(const VocabularyCase& c, CaseRun& run);

}  // namespace flashinfer::test
