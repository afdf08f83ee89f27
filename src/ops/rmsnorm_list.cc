// SPDX-License-Identifier: Apache-2.0
// The candidates of RMSNorm, in order.
#include "backends/cpu/rmsnorm.h"
#include "ops/rmsnorm.h"

namespace flashinfer {

std::span<const Candidate<RmsNormProblem, RmsNormOp::Entry>> RmsNormOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<RmsNormProblem, RmsNormOp::Entry>(
      cpu::AcceptsRmsNorm,
      {cpu::RunRmsNorm<cpu::avx512_bf16::RmsNormRows>, cpu::RunRmsNorm<cpu::avx512::RmsNormRows>,
       cpu::RunRmsNorm<cpu::avx2::RmsNormRows>, cpu::RunRmsNorm<cpu::scalar::RmsNormRows>});
  return kCandidates;
}

}  // namespace flashinfer
