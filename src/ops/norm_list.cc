// SPDX-License-Identifier: Apache-2.0
// The candidates of the norms, in order.
#include "backends/cpu/norm.h"
#include "backends/cuda/norm.h"
#include "cuda/device.h"
#include "ops/norm.h"

namespace flashinfer {

std::span<const Candidate<NormProblem, NormOp::Entry>> NormOp::Candidates() {
  static constexpr auto kCandidates = cpu::AppendCpuCandidates<NormProblem, NormOp::Entry>(
      {{"cuda.simt", cuda::Available, cuda::AcceptsNorm, cuda::RunNorm}}, cpu::AcceptsNorm,
      {cpu::RunNorm<cpu::avx512_bf16::NormRowRange>, cpu::RunNorm<cpu::avx512::NormRowRange>,
       cpu::RunNorm<cpu::avx2::NormRowRange>, cpu::RunNorm<cpu::scalar::NormRowRange>});
  return kCandidates;
}

}  // namespace flashinfer
