// SPDX-License-Identifier: Apache-2.0
// The candidates of softmax, sampling and argmax, in order.
#include "backends/cpu/sampling.h"
#include "backends/cuda/sampling.h"
#include "backends/cuda/vocabulary.h"
#include "cuda/device.h"
#include "ops/sampling.h"

namespace flashinfer {

std::span<const Candidate<VocabularyProblem, SoftmaxOp::Entry>> SoftmaxOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<VocabularyProblem, SoftmaxOp::Entry>(
      {{"cuda.simt", cuda::Available, cuda::AcceptsVocabulary, cuda::RunSoftmax}},
      cpu::AcceptsVocabulary,
      {cpu::RunSoftmax<cpu::avx512_bf16::VocabularyKernels>,
       cpu::RunSoftmax<cpu::avx512::VocabularyKernels>,
       cpu::RunSoftmax<cpu::avx2::VocabularyKernels>,
       cpu::RunSoftmax<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

std::span<const Candidate<VocabularyProblem, SamplingOp::Entry>> SamplingOp::Candidates() {
  static constexpr auto kCandidates =
      cpu::AppendCpuCandidates<VocabularyProblem, SamplingOp::Entry>(
          {{"cuda.simt", cuda::Available, cuda::AcceptsVocabulary, cuda::RunSampling}},
          cpu::AcceptsVocabulary,
          {cpu::RunSampling<cpu::avx512_bf16::VocabularyKernels>,
           cpu::RunSampling<cpu::avx512::VocabularyKernels>,
           cpu::RunSampling<cpu::avx2::VocabularyKernels>,
           cpu::RunSampling<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

std::span<const Candidate<VocabularyProblem, ArgMaxOp::Entry>> ArgMaxOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<VocabularyProblem, ArgMaxOp::Entry>(
      {{"cuda.simt", cuda::Available, cuda::AcceptsVocabulary, cuda::RunArgMax}},
      cpu::AcceptsVocabulary,
      {cpu::RunArgMax<cpu::avx512_bf16::VocabularyKernels>,
       cpu::RunArgMax<cpu::avx512::VocabularyKernels>, cpu::RunArgMax<cpu::avx2::VocabularyKernels>,
       cpu::RunArgMax<cpu::scalar::VocabularyKernels>});
  return kCandidates;
}

}  // namespace flashinfer
