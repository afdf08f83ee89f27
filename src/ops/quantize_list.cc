// SPDX-License-Identifier: Apache-2.0
// The candidates of quantisation to 8 bits and back, in order.
#include "backends/cpu/quantize.h"
#include "backends/cuda/quantize.h"
#include "cuda/device.h"
#include "ops/quantize.h"

namespace flashinfer {

std::span<const Candidate<QuantizeProblem, QuantizeOp::Entry>> QuantizeOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<QuantizeProblem, QuantizeOp::Entry>(
      {{"cuda.simt", cuda::Available, cuda::AcceptsQuantize, cuda::RunQuantize}},
      cpu::AcceptsQuantize,
      {cpu::RunQuantize<cpu::avx512_bf16::QuantizeKernels>,
       cpu::RunQuantize<cpu::avx512::QuantizeKernels>, cpu::RunQuantize<cpu::avx2::QuantizeKernels>,
       cpu::RunQuantize<cpu::scalar::QuantizeKernels>});
  return kCandidates;
}

}  // namespace flashinfer
