// SPDX-License-Identifier: Apache-2.0
// The candidates of appending to a paged KV cache, and of gathering from it, in order.
#include "backends/cpu/page_copy.h"
#include "backends/cuda/page_copy.h"
#include "cuda/device.h"
#include "ops/page_copy.h"

namespace flashinfer {

std::span<const Candidate<PageCopyProblem, PageAppendOp::Entry>> PageAppendOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<PageCopyProblem, PageAppendOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsPageCopy, cuda::RunPageAppend}},
          cpu::AcceptsPageCopy,
          {cpu::RunPageCopy<cpu::avx512_bf16::PageAppendTokens>,
           cpu::RunPageCopy<cpu::avx512::PageAppendTokens>,
           cpu::RunPageCopy<cpu::avx2::PageAppendTokens>,
           cpu::RunPageCopy<cpu::scalar::PageAppendTokens>});
  return kCandidates;
}

std::span<const Candidate<PageCopyProblem, PageGatherOp::Entry>> PageGatherOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<PageCopyProblem, PageGatherOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsPageCopy, cuda::RunPageGather}},
          cpu::AcceptsPageCopy,
          {cpu::RunPageCopy<cpu::avx512_bf16::PageGatherTokens>,
           cpu::RunPageCopy<cpu::avx512::PageGatherTokens>,
           cpu::RunPageCopy<cpu::avx2::PageGatherTokens>,
           cpu::RunPageCopy<cpu::scalar::PageGatherTokens>});
  return kCandidates;
}

}  // namespace flashinfer
