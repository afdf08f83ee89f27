// SPDX-License-Identifier: Apache-2.0
// The candidates of the gated activations, in order.
#include "backends/cpu/activation.h"
#include "backends/cuda/activation.h"
#include "cuda/device.h"
#include "ops/activation.h"

namespace flashinfer {

std::span<const Candidate<ActivationProblem, ActivationOp::Entry>> ActivationOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<ActivationProblem, ActivationOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsActivation, cuda::RunActivation}},
          cpu::AcceptsActivation,
          {cpu::RunActivation<cpu::avx512_bf16::ActivationPart>,
           cpu::RunActivation<cpu::avx512::ActivationPart>,
           cpu::RunActivation<cpu::avx2::ActivationPart>,
           cpu::RunActivation<cpu::scalar::ActivationPart>});
  return kCandidates;
}

}  // namespace flashinfer
