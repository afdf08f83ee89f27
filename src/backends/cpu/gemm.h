// SPDX-License-Identifier: Apache-2.0
// Dense matrix products on the CPU, over the tiles of linear layers.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/linear.h"
#include "ops/gemm.h"

namespace flashinfer::cpu {

/// Rows of a that multiply without packing b, and rows of b that a call of the kernel takes.
inline constexpr int kMaxFewRows = 4;
inline constexpr int64_t kFewRowsPiece = 64;

/// out = scale · a · bᵀ for rows `begin` to `end` of b; columns are dense on both sides.
struct FewRowsTask {
  const void* a;
  int64_t a_stride;
  const void* b;
  int64_t b_stride;
  DType dtype;
  int64_t k;
  int num_tokens;  ///< rows of a, 1 to kMaxFewRows
  int64_t begin;
  int64_t end;
  float scale;
  void* out;
  int64_t out_stride;
  DType dtype_out;
};

/// The kernels of one instruction set.
struct GemmKernels {
  const LinearKernels& linear;
  void (*few_rows)(const FewRowsTask& task);
};

#define FLASHINFER_DECLARE(isa, name)    \
  namespace name {                       \
  extern const GemmKernels kGemmKernels; \
  }
FLASHINFER_FOR_EACH_ISA(FLASHINFER_DECLARE)
#undef FLASHINFER_DECLARE

bool AcceptsGemm(const GemmProblem& problem, std::string* why);

class DenseRows;

/// The right-hand matrix of products. Few rows on the left multiply with it as it is. For more it
/// is packed, once, as a linear layer's weight: that moves n · k elements, and pays from about five
/// rows on. fp8 becomes bf16, which holds it exactly.
class GemmWeight {
 public:
  GemmWeight(const GemmKernels& kernels, const MatrixRows& b);
  ~GemmWeight();
  GemmWeight(const GemmWeight&) = delete;
  GemmWeight& operator=(const GemmWeight&) = delete;

  /// out = scale · a · bᵀ; the other fields of `params` are not read.
  void Multiply(const MatrixRows& a, const GemmParams& params);

 private:
  void MultiplyFewRows(const DenseRows& a, int num_tokens, const GemmParams& params);

  const GemmKernels& kernels_;
  MatrixRows b_;
  std::unique_ptr<DenseRows> rows_;
  std::unique_ptr<PackedLinear> packed_;
};

void Gemm(const GemmKernels& kernels, const GemmParams& params);

template <const GemmKernels& kKernels>
void RunGemm(const GemmParams& params) {
  Gemm(kKernels, params);
}

}  // namespace flashinfer::cpu
