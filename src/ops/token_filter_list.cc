// SPDX-License-Identifier: Apache-2.0
// The candidates of renormalising and masking, in order.
#include "backends/cpu/token_filter.h"
#include "backends/cuda/token_filter.h"
#include "backends/cuda/vocabulary.h"
#include "cuda/device.h"
#include "ops/token_filter.h"

namespace flashinfer {

std::span<const Candidate<VocabularyProblem, TokenFilterOp::Entry>> TokenFilterOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<VocabularyProblem, TokenFilterOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsVocabulary, cuda::RunTokenFilter}},
          cpu::AcceptsVocabulary,
          {cpu::RunTokenFilter<cpu::avx512_bf16::VocabularyKernels>,
           cpu::RunTokenFilter<cpu::avx512::VocabularyKernels>,
           cpu::RunTokenFilter<cpu::avx2::VocabularyKernels>,
           cpu::RunTokenFilter<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

}  // namespace flashinfer
