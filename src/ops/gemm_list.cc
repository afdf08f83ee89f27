// SPDX-License-Identifier: Apache-2.0
// The candidates of dense matrix products, in order.
#include "backends/cpu/linear.h"
#include "ops/gemm.h"

namespace flashinfer {
namespace {

bool AcceptsGemm(const GemmProblem& problem, std::string* why) {
  const DType t = problem.dtype;
  if (t != DType::kF32 && t != DType::kF16 && t != DType::kBF16) {
    return Refuse(why, "dtype must be f32, f16 or bf16");
  }
  if (problem.dtype_out != t && problem.dtype_out != DType::kF32) {
    return Refuse(why, "dtype_out must be dtype or f32");
  }
  return true;
}

}  // namespace

std::span<const Candidate<GemmProblem, GemmOp::Entry>> GemmOp::Candidates() {
  static constexpr auto kCandidates = cpu::CpuCandidates<GemmProblem, GemmOp::Entry>(
      AcceptsGemm,
      {cpu::PackLinear<cpu::avx512_bf16::kLinearKernels>,
       cpu::PackLinear<cpu::avx512::kLinearKernels>, cpu::PackLinear<cpu::avx2::kLinearKernels>,
       cpu::PackLinear<cpu::scalar::kLinearKernels>});
  return kCandidates;
}

}  // namespace flashinfer
