// SPDX-License-Identifier: Apache-2.0
// The candidates of batch prefill, in order.
#include "backends/cpu/attention.h"
#include "backends/cuda/prefill_mma.h"
#include "backends/cuda/prefill_simt.h"
#include "cuda/device.h"
#include "ops/batch_prefill.h"

namespace flashinfer {

std::span<const Candidate<AttentionProblem, AttentionEntry>> BatchPrefillOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<AttentionProblem, AttentionEntry>(
      {{"cuda.mma",
        cuda::Available,
        cuda::AcceptsPrefillMma,
        {cuda::MakePrefillMma, cuda::PrefillMmaWorkspaceBytes}},
       {"cuda.simt",
        cuda::Available,
        cuda::AcceptsPrefillSimt,
        {cuda::MakePrefillSimt, cuda::PrefillSimtWorkspaceBytes}}},
      cpu::AcceptsAttention, cpu::AttentionEntries<cpu::AttentionKind::kPrefill>());
  return kCandidates;
}

}  // namespace flashinfer
