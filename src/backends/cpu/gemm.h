// SPDX-License-Identifier: Apache-2.0
// Dense matrix products on the CPU, over the tiles of linear layers.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/linear.h"
#include "ops/gemm.h"

namespace flashinfer::cpu {

bool AcceptsGemm(const GemmProblem& problem, std::string* why);

/// The right-hand matrix in panels, packed as a linear layer's weight: packing moves n · k
/// elements, a product multiplies m times as many. fp8 becomes bf16, which holds it exactly.
class GemmWeight {
 public:
  GemmWeight(const LinearKernels& kernels, const MatrixRows& b);

  /// out = scale · a · bᵀ.
  void Multiply(const MatrixRows& a, const GemmParams& params) const;

 private:
  std::unique_ptr<PackedLinear> packed_;
};

void Gemm(const LinearKernels& kernels, const GemmParams& params);

template <const LinearKernels& kKernels>
void RunGemm(const GemmParams& params) {
  Gemm(kKernels, params);
}

}  // namespace flashinfer::cpu
