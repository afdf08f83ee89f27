// SPDX-License-Identifier: Apache-2.0
// The candidates of merging attention states, in order.
#include "backends/cpu/merge_state.h"
#include "ops/merge_state.h"

namespace flashinfer {

std::span<const Candidate<MergeStateProblem, MergeStateOp::Entry>> MergeStateOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<MergeStateProblem, MergeStateOp::Entry>(
      cpu::AcceptsMergeState, {cpu::RunMergeState<cpu::avx512_bf16::MergeStateRows>,
                               cpu::RunMergeState<cpu::avx512::MergeStateRows>,
                               cpu::RunMergeState<cpu::avx2::MergeStateRows>,
                               cpu::RunMergeState<cpu::scalar::MergeStateRows>});
  return kCandidates;
}

}  // namespace flashinfer
