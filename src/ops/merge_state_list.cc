// SPDX-License-Identifier: Apache-2.0
// The candidates of merging attention states, in order.
#include "backends/cpu/merge_state.h"
#include "backends/cuda/merge_states.h"
#include "cuda/device.h"
#include "ops/merge_state.h"

namespace flashinfer {

std::span<const Candidate<MergeStateProblem, MergeStateOp::Entry>> MergeStateOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<MergeStateProblem, MergeStateOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsMergeState, cuda::RunMergeState}},
          cpu::AcceptsMergeState,
          {cpu::RunMergeState<cpu::avx512_bf16::MergeStateRows>,
           cpu::RunMergeState<cpu::avx512::MergeStateRows>,
           cpu::RunMergeState<cpu::avx2::MergeStateRows>,
           cpu::RunMergeState<cpu::scalar::MergeStateRows>});
  return kCandidates;
}

}  // namespace flashinfer
