// SPDX-License-Identifier: Apache-2.0
// The candidates of RoPE, in order.
#include "backends/cpu/rope.h"
#include "backends/cuda/rope.h"
#include "cuda/device.h"
#include "ops/rope.h"

namespace flashinfer {

std::span<const Candidate<RopeProblem, RopeOp::Entry>> RopeOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<RopeProblem, RopeOp::Entry>(
      {{"cuda.simt", cuda::Available, cuda::AcceptsRope, cuda::RunRope}}, cpu::AcceptsRope,
      {cpu::RunRope<cpu::avx512_bf16::RopeTokens>, cpu::RunRope<cpu::avx512::RopeTokens>,
       cpu::RunRope<cpu::avx2::RopeTokens>, cpu::RunRope<cpu::scalar::RopeTokens>});
  return kCandidates;
}

}  // namespace flashinfer
