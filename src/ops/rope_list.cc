// SPDX-License-Identifier: Apache-2.0
// The candidates of RoPE, in order.
#include "backends/cpu/rope.h"
#include "ops/rope.h"

namespace flashinfer {

std::span<const Candidate<RopeProblem, RopeOp::Entry>> RopeOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<RopeProblem, RopeOp::Entry>(
      cpu::AcceptsRope,
      {cpu::RunRope<cpu::avx512_bf16::RopeTokens>, cpu::RunRope<cpu::avx512::RopeTokens>,
       cpu::RunRope<cpu::avx2::RopeTokens>, cpu::RunRope<cpu::scalar::RopeTokens>});
  return kCandidates;
}

}  // namespace flashinfer
