// SPDX-License-Identifier: Apache-2.0
// The candidates of latent attention, in order.
#include "backends/cpu/mla.h"
#include "backends/cuda/mla_mma.h"
#include "backends/cuda/mla_simt.h"
#include "cuda/device.h"
#include "ops/mla.h"

namespace flashinfer {

std::span<const Candidate<MlaProblem, MlaOp::Entry>> MlaOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<MlaProblem, MlaOp::Entry>(
      {{"cuda.mma",
        cuda::Available,
        cuda::AcceptsMlaMma,
        {cuda::MakeMlaMma, cuda::MlaMmaWorkspaceBytes}},
       {"cuda.simt",
        cuda::Available,
        cuda::AcceptsMlaSimt,
        {cuda::MakeMlaSimt, cuda::MlaSimtWorkspaceBytes}}},
      cpu::AcceptsMla,
      {cpu::MlaEntryOf<cpu::avx512_bf16::kMlaKernels>(),
       cpu::MlaEntryOf<cpu::avx512::kMlaKernels>(), cpu::MlaEntryOf<cpu::avx2::kMlaKernels>(),
       cpu::MlaEntryOf<cpu::scalar::kMlaKernels>()});
  return kCandidates;
}

}  // namespace flashinfer
