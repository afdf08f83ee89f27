// SPDX-License-Identifier: Apache-2.0
// The candidates of the gated activations, in order.
#include "backends/cpu/activation.h"
#include "ops/activation.h"

namespace flashinfer {

std::span<const Candidate<ActivationProblem, SiluAndMulOp::Entry>> SiluAndMulOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<ActivationProblem, SiluAndMulOp::Entry>(
      cpu::AcceptsActivation, {cpu::RunActivation<cpu::avx512_bf16::SiluAndMulPart>,
                               cpu::RunActivation<cpu::avx512::SiluAndMulPart>,
                               cpu::RunActivation<cpu::avx2::SiluAndMulPart>,
                               cpu::RunActivation<cpu::scalar::SiluAndMulPart>});
  return kCandidates;
}

}  // namespace flashinfer
