// SPDX-License-Identifier: Apache-2.0
// The candidates of packing bits, in order.
#include "backends/cpu/packbits.h"
#include "backends/cuda/packbits.h"
#include "cuda/device.h"
#include "ops/packbits.h"

namespace flashinfer {

std::span<const Candidate<PackBitsProblem, PackBitsOp::Entry>> PackBitsOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<PackBitsProblem, PackBitsOp::Entry>(
      {{"cuda.simt", cuda::Available, cuda::AcceptsPackBits, cuda::RunPackBits}},
      cpu::AcceptsPackBits,
      {cpu::RunPackBits<cpu::avx512_bf16::PackBytes>, cpu::RunPackBits<cpu::avx512::PackBytes>,
       cpu::RunPackBits<cpu::avx2::PackBytes>, cpu::RunPackBits<cpu::scalar::PackBytes>});
  return kCandidates;
}

}  // namespace flashinfer
