// SPDX-License-Identifier: Apache-2.0
// The candidates of linear layers, in order.
#include "backends/cpu/amx.h"
#include "backends/cuda/linear.h"
#include "cuda/device.h"
#include "ops/linear.h"

namespace flashinfer {

std::span<const Candidate<LinearProblem, LinearOp::Entry>> LinearOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<LinearProblem, LinearOp::Entry>(
      {{"cuda.packed", cuda::Available, cuda::AcceptsLinear, cuda::PackLinear},
       {"cpu.amx_bf16", cpu::AmxAvailable, cpu::AcceptsLinear,
        cpu::PackLinear<cpu::amx_bf16::kLinearKernels>}},
      cpu::AcceptsLinear,
      {cpu::PackLinear<cpu::avx512_bf16::kLinearKernels>,
       cpu::PackLinear<cpu::avx512::kLinearKernels>, cpu::PackLinear<cpu::avx2::kLinearKernels>,
       cpu::PackLinear<cpu::scalar::kLinearKernels>});
  return kCandidates;
}

}  // namespace flashinfer
