// SPDX-License-Identifier: Apache-2.0
// The candidates of dense matrix products, in order.
#include "backends/cpu/amx.h"
#include "ops/gemm.h"

namespace flashinfer {

std::span<const Candidate<GemmProblem, GemmOp::Entry>> GemmOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<GemmProblem, GemmOp::Entry>(
      {{"cpu.amx_bf16", cpu::AmxAvailable, cpu::AcceptsGemm,
        cpu::RunGemm<cpu::amx_bf16::kGemmKernels>}},
      cpu::AcceptsGemm,
      {cpu::RunGemm<cpu::avx512_bf16::kGemmKernels>, cpu::RunGemm<cpu::avx512::kGemmKernels>,
       cpu::RunGemm<cpu::avx2::kGemmKernels>, cpu::RunGemm<cpu::scalar::kGemmKernels>});
  return kCandidates;
}

}  // namespace flashinfer
