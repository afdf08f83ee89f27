// SPDX-License-Identifier: Apache-2.0
// Gated activations on every candidate, against a float64 loop.
#pragma once

#include <vector>

#include "support/case_run.h"
#include "support/cases/activation.h"

namespace flashinfer::test {

double ApplyActivation(ActivationKind kind, double x);
/// `x` holds rows of two halves of c.size.
std::vector<double> ActivationOracle(const ActivationCase& c, const std::vector<double>& x);
void RunActivation(ActivationKind kind, const TensorView& x, const TensorView& out,
                   const ActivationOptions& options);

void CheckActivation(const ActivationCase& c, CaseRun& run);

}  // namespace flashinfer::test
