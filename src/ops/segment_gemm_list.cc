// SPDX-License-Identifier: Apache-2.0
// The candidates of products of row segments, in order.
#include "backends/cpu/amx.h"
#include "backends/cpu/segment_gemm.h"
#include "ops/segment_gemm.h"

namespace flashinfer {

std::span<const Candidate<SegmentGemmProblem, SegmentGemmOp::Entry>> SegmentGemmOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<SegmentGemmProblem, SegmentGemmOp::Entry>(
          {{"cpu.amx_bf16", cpu::AmxAvailable, cpu::AcceptsSegmentGemm,
            cpu::RunSegmentGemm<cpu::amx_bf16::kGemmKernels>}},
          cpu::AcceptsSegmentGemm,
          {cpu::RunSegmentGemm<cpu::avx512_bf16::kGemmKernels>,
           cpu::RunSegmentGemm<cpu::avx512::kGemmKernels>,
           cpu::RunSegmentGemm<cpu::avx2::kGemmKernels>,
           cpu::RunSegmentGemm<cpu::scalar::kGemmKernels>});
  return kCandidates;
}

}  // namespace flashinfer
