// SPDX-License-Identifier: Apache-2.0
// The candidates of softmax, sampling and argmax, in order.
#include "backends/cpu/sampling.h"
#include "ops/sampling.h"

namespace flashinfer {

std::span<const Candidate<VocabularyProblem, SoftmaxOp::Entry>> SoftmaxOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<VocabularyProblem, SoftmaxOp::Entry>(
      cpu::AcceptsVocabulary, {cpu::RunSoftmax<cpu::avx512_bf16::VocabularyKernels>,
                               cpu::RunSoftmax<cpu::avx512::VocabularyKernels>,
                               cpu::RunSoftmax<cpu::avx2::VocabularyKernels>,
                               cpu::RunSoftmax<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

std::span<const Candidate<VocabularyProblem, SamplingOp::Entry>> SamplingOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<VocabularyProblem, SamplingOp::Entry>(
      cpu::AcceptsVocabulary, {cpu::RunSampling<cpu::avx512_bf16::VocabularyKernels>,
                               cpu::RunSampling<cpu::avx512::VocabularyKernels>,
                               cpu::RunSampling<cpu::avx2::VocabularyKernels>,
                               cpu::RunSampling<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

std::span<const Candidate<VocabularyProblem, ArgMaxOp::Entry>> ArgMaxOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<VocabularyProblem, ArgMaxOp::Entry>(
      cpu::AcceptsVocabulary,
      {cpu::RunArgMax<cpu::avx512_bf16::VocabularyKernels>,
       cpu::RunArgMax<cpu::avx512::VocabularyKernels>, cpu::RunArgMax<cpu::avx2::VocabularyKernels>,
       cpu::RunArgMax<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

}  // namespace flashinfer
