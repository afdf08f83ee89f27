// SPDX-License-Identifier: Apache-2.0
// The candidates of appending to a paged KV cache, in order.
#include "backends/cpu/page_append.h"
#include "ops/page_append.h"

namespace flashinfer {

std::span<const Candidate<PageAppendProblem, PageAppendOp::Entry>> PageAppendOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<PageAppendProblem, PageAppendOp::Entry>(
      cpu::AcceptsPageAppend, {cpu::RunPageAppend<cpu::avx512_bf16::PageAppendTokens>,
                               cpu::RunPageAppend<cpu::avx512::PageAppendTokens>,
                               cpu::RunPageAppend<cpu::avx2::PageAppendTokens>,
                               cpu::RunPageAppend<cpu::scalar::PageAppendTokens>});
  return kCandidates;
}

}  // namespace flashinfer
