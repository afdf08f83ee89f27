// SPDX-License-Identifier: Apache-2.0
// The candidates of quantising blocks, in order.
#include "backends/cpu/quantize_blocks.h"
#include "backends/cuda/quantize_blocks.h"
#include "cuda/device.h"
#include "ops/quantize_blocks.h"

namespace flashinfer {

std::span<const Candidate<QuantizeBlocksProblem, QuantizeBlocksOp::Entry>>
QuantizeBlocksOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<QuantizeBlocksProblem, QuantizeBlocksOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsQuantizeBlocks, cuda::RunQuantizeBlocks}},
          cpu::AcceptsQuantizeBlocks,
          {cpu::RunQuantizeBlocks<cpu::avx512_bf16::BlockRows>,
           cpu::RunQuantizeBlocks<cpu::avx512::BlockRows>,
           cpu::RunQuantizeBlocks<cpu::avx2::BlockRows>,
           cpu::RunQuantizeBlocks<cpu::scalar::BlockRows>});
  return kCandidates;
}

}  // namespace flashinfer
