// SPDX-License-Identifier: Apache-2.0
// The candidates of batch prefill, in order.
#include "backends/cpu/attention.h"
#include "ops/batch_prefill.h"

namespace flashinfer {

std::span<const Candidate<AttentionProblem, AttentionEntry>> BatchPrefillOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<AttentionProblem, AttentionEntry>(
      cpu::AcceptsAttention, cpu::AttentionEntries<cpu::AttentionKind::kPrefill>());
  return kCandidates;
}

}  // namespace flashinfer
