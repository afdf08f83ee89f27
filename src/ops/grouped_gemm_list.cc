// SPDX-License-Identifier: Apache-2.0
// The candidates of products of groups of rows, in order.
#include "backends/cpu/amx.h"
#include "backends/cpu/grouped_gemm.h"
#include "ops/grouped_gemm.h"

namespace flashinfer {

std::span<const Candidate<GroupedGemmProblem, GroupedGemmOp::Entry>> GroupedGemmOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<GroupedGemmProblem, GroupedGemmOp::Entry>(
          {{"cpu.amx_bf16", cpu::AmxAvailable, cpu::AcceptsGroupedGemm,
            cpu::RunGroupedGemm<cpu::amx_bf16::kGemmKernels>}},
          cpu::AcceptsGroupedGemm,
          {cpu::RunGroupedGemm<cpu::avx512_bf16::kGemmKernels>,
           cpu::RunGroupedGemm<cpu::avx512::kGemmKernels>,
           cpu::RunGroupedGemm<cpu::avx2::kGemmKernels>,
           cpu::RunGroupedGemm<cpu::scalar::kGemmKernels>});
  return kCandidates;
}

}  // namespace flashinfer
