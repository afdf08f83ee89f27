// SPDX-License-Identifier: Apache-2.0
// Products of row segments with a weight each on the CPU.
#pragma once

#include <string>

#include "backends/cpu/linear.h"
#include "ops/segment_gemm.h"

namespace flashinfer::cpu {

bool AcceptsSegmentGemm(const SegmentGemmProblem& problem, std::string* why);

void SegmentGemm(const LinearKernels& kernels, const SegmentGemmParams& params);

template <const LinearKernels& kKernels>
void RunSegmentGemm(const SegmentGemmParams& params) {
  SegmentGemm(kKernels, params);
}

}  // namespace flashinfer::cpu
