// SPDX-License-Identifier: Apache-2.0
// The online softmax (Milakov and Gimelshein, 2018) of attention kernels, in base 2.
#pragma once

#include "backends/cpu/attention.h"
#include "backends/cpu/simd/simd_tile.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

inline constexpr float kMinusInf = -__builtin_inff();
inline constexpr int kTileTokens = kAttentionKvTile;

/// 2^(a - b), where b is the larger one and not -inf.
inline float Weight(float a, float b) { return FirstLane(Exp2(F32::Set(a - b))); }

inline void Reset(const AttentionState& state, int rows, int64_t stride) {
  for (int r = 0; r < rows; ++r) {
    state.m[r] = kMinusInf;
    state.l[r] = 0;
  }
  for (int64_t i = 0; i < rows * stride; i += F32::kWidth) Store(state.o + i, F32::Set(0.0f));
}

/// Adds the state of other keys.
inline void Fold(const AttentionState& into, const AttentionState& from, int rows, int64_t stride) {
  for (int r = 0; r < rows; ++r) {
    if (from.l[r] == 0) continue;
    const float m = from.m[r] > into.m[r] ? from.m[r] : into.m[r];
    const float a = Weight(into.m[r], m);
    const float b = Weight(from.m[r], m);
    into.m[r] = m;
    into.l[r] = into.l[r] * a + from.l[r] * b;
    for (int64_t i = r * stride; i < (r + 1) * stride; i += F32::kWidth) {
      Store(into.o + i, Fma(Load(from.o + i), F32::Set(b), Load(into.o + i) * F32::Set(a)));
    }
  }
}

/// How a raw product becomes a base-2 logit: scale · x, or cap · tanh(scale · x) when cap > 0.
struct ScoreScale {
  float scale;
  float cap;
};

inline ScoreScale ScaleOf(float sm_scale, float soft_cap) {
  if (soft_cap > 0) return {sm_scale / soft_cap, soft_cap * kLog2E};
  return {sm_scale * kLog2E, 0};
}

/// Keys begin..end of a tile.
struct KeySpan {
  int begin;
  int end;
};

/// Turns one row's raw scores into probabilities relative to the new maximum, in place, and also
/// into pairs of bf16 when kPairs and `pairs` is given. Writes how much the state so far counts to
/// `alpha`; the caller applies it to o.
template <bool kPairs>
inline void SoftmaxRow(const ScoreScale& scale, KeySpan seen, int num_tokens, float* s,
                       [[maybe_unused]] float* pairs, const AttentionState& state, int row,
                       float* alpha) {
  constexpr int kWidth = F32::kWidth;
  const F32 factor = F32::Set(scale.scale);
  const F32 minus_inf = F32::Set(kMinusInf);
  F32 largest = minus_inf;
  const int end = (num_tokens + kWidth - 1) / kWidth * kWidth;
  for (int i = 0; i < end; i += kWidth) {
    F32 x = Load(s + i) * factor;
    if (scale.cap > 0) x = F32::Set(scale.cap) * Tanh(x);
    if (seen.end < i + kWidth) x = SelectFirst(seen.end > i ? seen.end - i : 0, x, minus_inf);
    if (seen.begin > i) {
      x = SelectFirst(seen.begin < i + kWidth ? seen.begin - i : kWidth, minus_inf, x);
    }
    Store(s + i, x);
    largest = Max(x, largest);
  }
  const float tile_max = MaxLane(largest);
  const float m = tile_max > state.m[row] ? tile_max : state.m[row];
  // With no key seen so far m is -inf; any finite value makes every probability 2^-inf = 0.
  const float shift = m == kMinusInf ? 0.0f : m;
  *alpha = Weight(state.m[row], shift);
  const F32 shifts = F32::Set(shift);
  F32 sum = F32::Set(0.0f);
  for (int i = 0; i < end; i += kWidth) {
    const F32 p = Exp2(Load(s + i) - shifts);
    Store(s + i, p);
    sum = sum + p;
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      if (pairs != nullptr) StorePairs(pairs + i / 2, p);
    }
#endif
  }
  state.m[row] = m;
  state.l[row] = state.l[row] * *alpha + Sum(sum);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
