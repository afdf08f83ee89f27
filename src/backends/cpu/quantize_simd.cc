// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back, of columns of a row. Bound by memory.
#include "backends/cpu/quantize.h"
#include "backends/cpu/simd/quantize_store.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;

template <class T>
const T* XAt(const QuantizeParams& p, const QuantizeSpan& span) {
  return static_cast<const T*>(p.x) + span.row * p.x_stride + span.begin;
}

template <class T>
float AmaxOf(const QuantizeParams& p, const QuantizeSpan& span) {
  const T* x = XAt<T>(p, span);
  const int64_t size = span.end - span.begin;
  const F32 zero = F32::Set(0.0f);
  const F32 infinity = F32::Set(__builtin_inff());
  F32 largest0 = zero;
  F32 largest1 = zero;
  const auto finite_size = [&](F32 v) { return SelectLess(Abs(v), infinity, Abs(v), zero); };
  int64_t i = 0;
  for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
    largest0 = Max(largest0, finite_size(Load(x + i)));
    largest1 = Max(largest1, finite_size(Load(x + i + kWidth)));
  }
  for (; i < size; i += kWidth) {
    const int n = size - i < kWidth ? static_cast<int>(size - i) : kWidth;
    largest0 = Max(largest0, finite_size(Load(x + i, n)));
  }
  return MaxLane(Max(largest0, largest1));
}

inline void StoreNarrow(int8_t* p, F32 v, int n) { StoreRounded(p, v, n); }
template <class Q>
inline void StoreNarrow(Q* p, F32 v, int n) {
  Store(p, v, n);
}

template <class T, class Q>
void NarrowTo(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  const T* x = XAt<T>(p, span);
  Q* q = static_cast<Q*>(p.q) + span.row * p.q_stride + span.begin;
  const int64_t size = span.end - span.begin;
  const F32 factor = F32::Set(1.0f / scale);
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) StoreNarrow(q + i, Load(x + i) * factor, kWidth);
  if (i < size) {
    const int n = static_cast<int>(size - i);
    StoreNarrow(q + i, Load(x + i, n) * factor, n);
  }
}

template <class T, class Q>
void WidenTo(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  T* x = static_cast<T*>(p.x) + span.row * p.x_stride + span.begin;
  const Q* q = static_cast<const Q*>(p.q) + span.row * p.q_stride + span.begin;
  const int64_t size = span.end - span.begin;
  const F32 factor = F32::Set(scale);
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) Store(x + i, Load(q + i) * factor);
  if (i < size) {
    const int n = static_cast<int>(size - i);
    Store(x + i, Load(q + i, n) * factor, n);
  }
}

template <class T>
void NarrowFrom(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  if (p.dtype_q == DType::kE4M3) return NarrowTo<T, E4M3>(p, span, scale);
  if (p.dtype_q == DType::kE5M2) return NarrowTo<T, E5M2>(p, span, scale);
  NarrowTo<T, int8_t>(p, span, scale);
}

template <class T>
void WidenFrom(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  if (p.dtype_q == DType::kE4M3) return WidenTo<T, E4M3>(p, span, scale);
  if (p.dtype_q == DType::kE5M2) return WidenTo<T, E5M2>(p, span, scale);
  WidenTo<T, int8_t>(p, span, scale);
}

float Amax(const QuantizeParams& p, const QuantizeSpan& span) {
  if (p.dtype == DType::kF32) return AmaxOf<float>(p, span);
  return p.dtype == DType::kF16 ? AmaxOf<F16>(p, span) : AmaxOf<BF16>(p, span);
}

void Narrow(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  if (p.dtype == DType::kF32) return NarrowFrom<float>(p, span, scale);
  if (p.dtype == DType::kF16) return NarrowFrom<F16>(p, span, scale);
  NarrowFrom<BF16>(p, span, scale);
}

void Widen(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  if (p.dtype == DType::kF32) return WidenFrom<float>(p, span, scale);
  if (p.dtype == DType::kF16) return WidenFrom<F16>(p, span, scale);
  WidenFrom<BF16>(p, span, scale);
}

}  // namespace

const QuantizeKernelTable& QuantizeKernels() {
  static constexpr QuantizeKernelTable kKernels{Amax, Narrow, Widen};
  return kKernels;
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
