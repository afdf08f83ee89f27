// SPDX-License-Identifier: Apache-2.0
// The candidates of the gated activations, in order.
#include "backends/cpu/activation.h"
#include "ops/activation.h"

namespace flashinfer {

std::span<const Candidate<ActivationProblem, ActivationOp::Entry>> ActivationOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<ActivationProblem, ActivationOp::Entry>(
      cpu::AcceptsActivation, {cpu::RunActivation<cpu::avx512_bf16::ActivationPart>,
                               cpu::RunActivation<cpu::avx512::ActivationPart>,
                               cpu::RunActivation<cpu::avx2::ActivationPart>,
                               cpu::RunActivation<cpu::scalar::ActivationPart>});
  return kCandidates;
}

}  // namespace flashinfer
