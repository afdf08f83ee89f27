// SPDX-License-Identifier: Apache-2.0
// The candidates of batch decode, in order.
#include "backends/cpu/attention.h"
#include "ops/batch_decode.h"

namespace flashinfer {

std::span<const Candidate<AttentionProblem, AttentionEntry>> BatchDecodeOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<AttentionProblem, AttentionEntry>(
      cpu::AcceptsAttention, cpu::AttentionEntries<cpu::AttentionKind::kDecode>());
  return kCandidates;
}

}  // namespace flashinfer
