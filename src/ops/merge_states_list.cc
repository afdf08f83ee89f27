// SPDX-License-Identifier: Apache-2.0
// The candidates of merging many attention states, in order.
#include "backends/cpu/merge_states.h"
#include "backends/cuda/merge_states.h"
#include "cuda/device.h"
#include "ops/merge_states.h"

namespace flashinfer {

std::span<const Candidate<MergeStatesProblem, MergeStatesOp::Entry>> MergeStatesOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<MergeStatesProblem, MergeStatesOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsMergeStates, cuda::RunMergeStates}},
          cpu::AcceptsMergeStates,
          {cpu::RunMergeStates<cpu::avx512_bf16::MergeStatesRows>,
           cpu::RunMergeStates<cpu::avx512::MergeStatesRows>,
           cpu::RunMergeStates<cpu::avx2::MergeStatesRows>,
           cpu::RunMergeStates<cpu::scalar::MergeStatesRows>});
  return kCandidates;
}

}  // namespace flashinfer
