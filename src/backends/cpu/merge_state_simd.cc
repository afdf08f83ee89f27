// SPDX-License-Identifier: Apache-2.0
// Merging pairs of attention states, row by row. Bound by memory.
#include "backends/cpu/merge_state.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

float Exp2Of(float x) {
  float lanes[F32::kWidth];
  Store(lanes, Exp2(F32::Set(x)));
  return lanes[0];
}

/// out = a · weight_a + b · weight_b; a weight of 0 leaves its values out, whatever they are.
template <class T>
void MergeRow(const T* a, float weight_a, const T* b, float weight_b, T* out, int64_t size) {
  const F32 zero = F32::Set(0.0f);
  for (int64_t i = 0; i < size; i += F32::kWidth) {
    const int n = size - i < F32::kWidth ? static_cast<int>(size - i) : F32::kWidth;
    const F32 from_a = weight_a == 0 ? zero : Load(a + i, n) * F32::Set(weight_a);
    const F32 from_b = weight_b == 0 ? zero : Load(b + i, n) * F32::Set(weight_b);
    Store(out + i, from_a + from_b, n);
  }
}

template <class T>
void Rows(const MergeStateParams& p, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t token = row / p.num_heads;
    const int64_t head = row % p.num_heads;
    if (p.mask != nullptr && p.mask[token * p.mask_stride] == 0) continue;
    const auto v = [&](const StateRows& s) {
      return static_cast<T*>(s.v) + token * s.v_stride_token + head * s.v_stride_head;
    };
    const auto s = [&](const StateRows& state) {
      return state.s + token * state.s_stride_token + head * state.s_stride_head;
    };
    const float s_a = *s(p.a);
    const float s_b = *s(p.b);
    const float max = s_a > s_b ? s_a : s_b;
    if (max == kMinusInfinity) {
      MergeRow<T>(v(p.a), 0, v(p.b), 0, v(p.merged), p.head_dim);
      *s(p.merged) = kMinusInfinity;
      continue;
    }
    const float weight_a = Exp2Of(s_a - max);
    const float weight_b = Exp2Of(s_b - max);
    const float sum = weight_a + weight_b;
    MergeRow<T>(v(p.a), weight_a / sum, v(p.b), weight_b / sum, v(p.merged), p.head_dim);
    *s(p.merged) = max + __builtin_log2f(sum);
  }
}

}  // namespace

void MergeStateRows(const MergeStateParams& p, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return Rows<float>(p, begin, end);
  if (p.dtype == DType::kF16) return Rows<F16>(p, begin, end);
  Rows<BF16>(p, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
