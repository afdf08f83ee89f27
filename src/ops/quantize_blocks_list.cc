// SPDX-License-Identifier: Apache-2.0
// The candidates of quantising blocks, in order.
#include "backends/cpu/quantize_blocks.h"
#include "ops/quantize_blocks.h"

namespace flashinfer {

std::span<const Candidate<QuantizeBlocksProblem, QuantizeBlocksOp::Entry>>
QuantizeBlocksOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::CpuCandidates<QuantizeBlocksProblem, QuantizeBlocksOp::Entry>(
          cpu::AcceptsQuantizeBlocks, {cpu::RunQuantizeBlocks<cpu::avx512_bf16::BlockRows>,
                                       cpu::RunQuantizeBlocks<cpu::avx512::BlockRows>,
                                       cpu::RunQuantizeBlocks<cpu::avx2::BlockRows>,
                                       cpu::RunQuantizeBlocks<cpu::scalar::BlockRows>});
  return kCandidates;
}

}  // namespace flashinfer
