// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back, of columns of a row. Bound by memory.
#include "backends/cpu/quantize.h"
#include "backends/cpu/simd/quantize_store.h"
#include "backends/cpu/simd/row_vectors.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;

template <class T>
const T* XAt(const QuantizeParams& p, const QuantizeSpan& span) {
  return static_cast<const T*>(p.x) + span.row * p.x_stride + span.begin;
}

/// The largest of what `size_of` makes of the elements' magnitudes; NaN counts as 0.
template <class T, class SizeOf>
float LargestOf(const T* x, int64_t size, SizeOf size_of) {
  F32 largest[2] = {F32::Set(0.0f), F32::Set(0.0f)};
  int64_t i = 0;
  for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
    // Max() gives its second argument where one is NaN.
    largest[0] = Max(size_of(Abs(Load(x + i))), largest[0]);
    largest[1] = Max(size_of(Abs(Load(x + i + kWidth))), largest[1]);
  }
  for (; i < size; i += kWidth) {
    const int n = size - i < kWidth ? static_cast<int>(size - i) : kWidth;
    largest[0] = Max(size_of(Abs(Load(x + i, n))), largest[0]);
  }
  return MaxLane(Max(largest[0], largest[1]));
}

/// Of finite elements.
template <class T>
float AmaxOf(const QuantizeParams& p, const QuantizeSpan& span) {
  const T* x = XAt<T>(p, span);
  const int64_t size = span.end - span.begin;
  const float infinity = __builtin_inff();
  const float largest = LargestOf(x, size, [](F32 v) { return v; });
  if (largest < infinity) [[likely]]
    return largest;
  return LargestOf(x, size,
                   [&](F32 v) { return SelectLess(v, F32::Set(infinity), v, F32::Set(0.0f)); });
}

template <class T, class Q>
void NarrowTo(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  const T* x = XAt<T>(p, span);
  Q* q = static_cast<Q*>(p.q) + span.row * p.q_stride + span.begin;
  const F32 factor = F32::Set(1.0f / scale);
  WriteRow(q, false, span.end - span.begin,
           [&](int64_t i, auto lanes) { return lanes.LoadFrom(x + i) * factor; });
}

template <class T, class Q>
void WidenTo(const QuantizeParams& p, const QuantizeSpan& span, float scale) {
  T* x = static_cast<T*>(p.x) + span.row * p.x_stride + span.begin;
  const Q* q = static_cast<const Q*>(p.q) + span.row * p.q_stride + span.begin;
  const F32 factor = F32::Set(scale);
  WriteRow(x, false, span.end - span.begin,
           [&](int64_t i, auto lanes) { return lanes.LoadFrom(q + i) * factor; });
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
