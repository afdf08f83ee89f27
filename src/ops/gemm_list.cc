// SPDX-License-Identifier: Apache-2.0
// The candidates of dense matrix products, in order.
#include "backends/cpu/gemm.h"
#include "ops/gemm.h"

namespace flashinfer {

std::span<const Candidate<GemmProblem, GemmOp::Entry>> GemmOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<GemmProblem, GemmOp::Entry>(
      cpu::AcceptsGemm,
      {cpu::RunGemm<cpu::avx512_bf16::kGemmKernels>, cpu::RunGemm<cpu::avx512::kGemmKernels>,
       cpu::RunGemm<cpu::avx2::kGemmKernels>, cpu::RunGemm<cpu::scalar::kGemmKernels>});
  return kCandidates;
}

}  // namespace flashinfer
