// SPDX-License-Identifier: Apache-2.0
// RMSNorm rows: one pass for the sum of squares, one to write. Bound by memory.
#include "backends/cpu/rmsnorm.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

template <class T>
float SumOfSquares(const T* x, int64_t size) {
  constexpr int kWidth = F32::kWidth;
  F32 sum0 = F32::Set(0.0f);
  F32 sum1 = F32::Set(0.0f);
  int64_t i = 0;
  for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
    const F32 a = Load(x + i);
    const F32 b = Load(x + i + kWidth);
    sum0 = Fma(a, a, sum0);
    sum1 = Fma(b, b, sum1);
  }
  for (; i < size; i += kWidth) {
    const int n = size - i < kWidth ? static_cast<int>(size - i) : kWidth;
    const F32 a = Load(x + i, n);
    sum0 = Fma(a, a, sum0);
  }
  return Sum(sum0 + sum1);
}

template <class T, class W>
void Row(const T* x, const W* weight, T* out, int64_t size, float eps) {
  constexpr int kWidth = F32::kWidth;
  const float mean = SumOfSquares(x, size) / static_cast<float>(size);
  const F32 scale = F32::Set(1.0f / __builtin_sqrtf(mean + eps));
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) Store(out + i, Load(x + i) * scale * Load(weight + i));
  if (i < size) {
    const int n = static_cast<int>(size - i);
    Store(out + i, Load(x + i, n) * scale * Load(weight + i, n), n);
  }
}

template <class T, class W>
void Rows(const RmsNormParams& p, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t outer = row / p.num_inner;
    const int64_t inner = row % p.num_inner;
    Row(static_cast<const T*>(p.x) + outer * p.x_stride_outer + inner * p.x_stride_inner,
        static_cast<const W*>(p.weight),
        static_cast<T*>(p.out) + outer * p.out_stride_outer + inner * p.out_stride_inner,
        p.hidden_size, p.eps);
  }
}

template <class T>
void RowsOf(const RmsNormParams& p, int64_t begin, int64_t end) {
  if (p.dtype_weight == DType::kF32) return Rows<T, float>(p, begin, end);
  Rows<T, T>(p, begin, end);
}

}  // namespace

void RmsNormRows(const RmsNormParams& p, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return RowsOf<float>(p, begin, end);
  if (p.dtype == DType::kF16) return RowsOf<F16>(p, begin, end);
  RowsOf<BF16>(p, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
