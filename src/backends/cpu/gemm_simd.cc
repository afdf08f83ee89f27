// SPDX-License-Identifier: Apache-2.0
// Products with few rows on the left: dot products along the rows of the right-hand matrix, which
// is read once and not packed.
#include "backends/cpu/gemm.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;
// With the sums of kMaxFewRows rows, all registers but a few for what is multiplied.
#if defined(__AVX512F__)
constexpr int kWeightRows = 4;
#else
constexpr int kWeightRows = 2;
#endif

struct Sums {
  float of[kMaxFewRows][kFewRowsPiece];
};

/// Rows `row` to `row + kRows` of b times all kTokens rows of a.
template <class T, int kTokens, int kRows>
void DotRows(const FewRowsTask& task, int64_t row, Sums& sums) {
  const T* a = static_cast<const T*>(task.a);
  const T* b = static_cast<const T*>(task.b) + row * task.b_stride;
  F32 acc[kTokens][kRows];
  for (auto& token : acc) {
    for (F32& sum : token) sum = F32::Set(0.0f);
  }
  int64_t k = 0;
  for (; k + kWidth <= task.k; k += kWidth) {
    F32 weights[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) weights[r] = Load(b + r * task.b_stride + k);
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const F32 x = Load(a + t * task.a_stride + k);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[t][r] = Fma(x, weights[r], acc[t][r]);
    }
  }
  if (const int n = static_cast<int>(task.k - k); n > 0) {
    for (int t = 0; t < kTokens; ++t) {
      const F32 x = Load(a + t * task.a_stride + k, n);
      for (int r = 0; r < kRows; ++r) {
        acc[t][r] = Fma(x, Load(b + r * task.b_stride + k, n), acc[t][r]);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int r = 0; r < kRows; ++r) {
      sums.of[t][row - task.begin + r] = Sum(acc[t][r]);
    }
  }
}

template <class T, int kTokens>
void DotAll(const FewRowsTask& task, Sums& sums) {
  int64_t row = task.begin;
  for (; row + kWeightRows <= task.end; row += kWeightRows) {
    DotRows<T, kTokens, kWeightRows>(task, row, sums);
  }
  for (; row < task.end; ++row) DotRows<T, kTokens, 1>(task, row, sums);
}

template <class T>
void Dot(const FewRowsTask& task, Sums& sums) {
  switch (task.num_tokens) {
    case 1:
      return DotAll<T, 1>(task, sums);
    case 2:
      return DotAll<T, 2>(task, sums);
    case 3:
      return DotAll<T, 3>(task, sums);
    default:
      return DotAll<T, 4>(task, sums);
  }
}

template <class T>
void StoreSums(const FewRowsTask& task, const Sums& sums) {
  const F32 scale = F32::Set(task.scale);
  for (int t = 0; t < task.num_tokens; ++t) {
    T* out = static_cast<T*>(task.out) + t * task.out_stride + task.begin;
    for (int64_t i = 0; i < task.end - task.begin; i += kWidth) {
      const int64_t left = task.end - task.begin - i;
      const int n = left < kWidth ? static_cast<int>(left) : kWidth;
      Store(out + i, Load(sums.of[t] + i, n) * scale, n);
    }
  }
}

}  // namespace

void FewRows(const FewRowsTask& task) {
  Sums sums;
  if (task.dtype == DType::kF32) {
    Dot<float>(task, sums);
  } else if (task.dtype == DType::kF16) {
    Dot<F16>(task, sums);
  } else {
    Dot<BF16>(task, sums);
  }
  if (task.dtype_out == DType::kF32) {
    StoreSums<float>(task, sums);
  } else if (task.dtype_out == DType::kF16) {
    StoreSums<F16>(task, sums);
  } else {
    StoreSums<BF16>(task, sums);
  }
}

const GemmKernels kGemmKernels{kLinearKernels, FewRows};

}  // namespace flashinfer::cpu::FLASHINFER_ISA
