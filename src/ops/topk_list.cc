// SPDX-License-Identifier: Apache-2.0
// The candidates of top-k selection, in order.
#include "backends/cpu/topk.h"
#include "backends/cuda/topk.h"
#include "backends/cuda/vocabulary.h"
#include "cuda/device.h"
#include "ops/topk.h"

namespace flashinfer {

std::span<const Candidate<VocabularyProblem, TopKOp::Entry>> TopKOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<VocabularyProblem, TopKOp::Entry>(
      {{"cuda.simt", cuda::Available, cuda::AcceptsVocabulary, cuda::RunTopK}},
      cpu::AcceptsVocabulary,
      {cpu::RunTopK<cpu::avx512_bf16::VocabularyKernels>,
       cpu::RunTopK<cpu::avx512::VocabularyKernels>, cpu::RunTopK<cpu::avx2::VocabularyKernels>,
       cpu::RunTopK<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

}  // namespace flashinfer
