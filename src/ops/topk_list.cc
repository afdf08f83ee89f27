// SPDX-License-Identifier: Apache-2.0
// The candidates of top-k selection, in order.
#include "backends/cpu/topk.h"
#include "ops/topk.h"

namespace flashinfer {

std::span<const Candidate<VocabularyProblem, TopKOp::Entry>> TopKOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<VocabularyProblem, TopKOp::Entry>(
      cpu::AcceptsVocabulary,
      {cpu::RunTopK<cpu::avx512_bf16::VocabularyKernels>,
       cpu::RunTopK<cpu::avx512::VocabularyKernels>, cpu::RunTopK<cpu::avx2::VocabularyKernels>,
       cpu::RunTopK<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

}  // namespace flashinfer
