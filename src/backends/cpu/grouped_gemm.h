// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows with a matrix each on the CPU.
#pragma once

#include <string>

#include "backends/cpu/gemm.h"
#include "ops/grouped_gemm.h"

namespace flashinfer::cpu {

bool AcceptsGroupedGemm(const GroupedGemmProblem& problem, std::string* why);

void GroupedGemm(const GemmKernels& kernels, const GroupedGemmParams& params);

template <const GemmKernels& kKernels>
void RunGroupedGemm(const GroupedGemmParams& params) {
  GroupedGemm(kKernels, params);
}

}  // namespace flashinfer::cpu
