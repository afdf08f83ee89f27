// SPDX-License-Identifier: Apache-2.0
// The candidates of chain speculative sampling, in order.
#include "backends/cpu/chain_speculative.h"
#include "backends/cuda/chain_speculative.h"
#include "backends/cuda/vocabulary.h"
#include "cuda/device.h"
#include "ops/chain_speculative.h"

namespace flashinfer {
namespace {

bool AcceptsProbs(const VocabularyProblem& problem, std::string* why) {
  return problem.dtype == DType::kF32 || Refuse(why, "dtype must be f32");
}

bool AcceptsOnCpu(const VocabularyProblem& problem, std::string* why) {
  return cpu::AcceptsVocabulary(problem, why) && AcceptsProbs(problem, why);
}

bool AcceptsOnCuda(const VocabularyProblem& problem, std::string* why) {
  return cuda::AcceptsVocabulary(problem, why) && AcceptsProbs(problem, why);
}

}  // namespace

std::span<const Candidate<VocabularyProblem, ChainSpeculativeOp::Entry>>
ChainSpeculativeOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<VocabularyProblem, ChainSpeculativeOp::Entry>(
          {{"cuda.simt", cuda::Available, AcceptsOnCuda, cuda::RunChainSpeculative}}, AcceptsOnCpu,
          {cpu::RunChainSpeculative<cpu::avx512_bf16::VocabularyKernels>,
           cpu::RunChainSpeculative<cpu::avx512::VocabularyKernels>,
           cpu::RunChainSpeculative<cpu::avx2::VocabularyKernels>,
           cpu::RunChainSpeculative<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

}  // namespace flashinfer
