// SPDX-License-Identifier: Apache-2.0
// The candidates of batch indices, positions and sequence lengths, in order.
#include "backends/cpu/page_positions.h"
#include "backends/cuda/page_positions.h"
#include "cuda/device.h"
#include "ops/page_positions.h"

namespace flashinfer {

std::span<const Candidate<PagePositionsProblem, BatchIndicesPositionsOp::Entry>>
BatchIndicesPositionsOp::Candidates() {
  static constexpr Candidate<PagePositionsProblem, Entry> kCandidates[] = {
      {"cuda.simt", cuda::Available, cuda::AcceptsPagePositions, cuda::RunBatchIndicesPositions},
      {"cpu.scalar", cpu::IsaAvailable<cpu::Isa::kScalar>, cpu::AcceptsPagePositions,
       cpu::RunBatchIndicesPositions}};
  return kCandidates;
}

std::span<const Candidate<PagePositionsProblem, SeqLensOp::Entry>> SeqLensOp::Candidates() {
  static constexpr Candidate<PagePositionsProblem, Entry> kCandidates[] = {
      {"cuda.simt", cuda::Available, cuda::AcceptsPagePositions, cuda::RunSeqLens},
      {"cpu.scalar", cpu::IsaAvailable<cpu::Isa::kScalar>, cpu::AcceptsPagePositions,
       cpu::RunSeqLens}};
  return kCandidates;
}

}  // namespace flashinfer
