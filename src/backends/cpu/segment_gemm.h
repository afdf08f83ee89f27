// SPDX-License-Identifier: Apache-2.0
// Products of row segments with a weight each on the CPU.
#pragma once

#include <string>

#include "backends/cpu/gemm.h"
#include "ops/segment_gemm.h"

namespace flashinfer::cpu {

bool AcceptsSegmentGemm(const SegmentGemmProblem& problem, std::string* why);

void SegmentGemm(const GemmKernels& kernels, const SegmentGemmParams& params);

template <const GemmKernels& kKernels>
void RunSegmentGemm(const SegmentGemmParams& params) {
  SegmentGemm(kKernels, params);
}

}  // namespace flashinfer::cpu
