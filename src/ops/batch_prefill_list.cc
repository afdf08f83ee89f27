// SPDX-License-Identifier: Apache-2.0
// The candidates of batch prefill, in order.
#include "backends/cpu/attention.h"
#include "ops/batch_prefill.h"

namespace flashinfer {

std::span<const Candidate<AttentionProblem, AttentionFactory>> BatchPrefillOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<AttentionProblem, AttentionFactory>(
      cpu::AcceptsAttention, {cpu::MakeAttention<cpu::avx512_bf16::kAttentionKernels>,
                              cpu::MakeAttention<cpu::avx512::kAttentionKernels>,
                              cpu::MakeAttention<cpu::avx2::kAttentionKernels>,
                              cpu::MakeAttention<cpu::scalar::kAttentionKernels>});
  return kCandidates;
}

}  // namespace flashinfer
