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

/// How a row's raw products with a tile of keys become base-2 logits:
/// x = scale · product + slope · (offset + key), then cap · tanh(x) when cap > 0, then + bias.
struct RowScores {
  float scale;
  float slope;       ///< 0: none
  float offset;      ///< of the tile's first key from the row's token
  float cap;         ///< 0: none
  const char* bias;  ///< of the tile's first key; null: none
  DType dtype_bias;
};

/// What is the same of all tiles. `score_scale` is a natural logarithm's.
inline RowScores RowScoresOf(float score_scale, float slope, float soft_cap) {
  const float unit = soft_cap > 0 ? 1 / soft_cap : kLog2E;
  return {score_scale * unit, slope * unit, 0, soft_cap * kLog2E, nullptr, DType::kF32};
}

/// Keys `begin` to `begin + n` of a row's bias.
inline F32 LoadBias(const RowScores& row, int begin, int n) {
  if (row.dtype_bias == DType::kF32) {
    return Load(reinterpret_cast<const float*>(row.bias) + begin, n);
  }
  if (row.dtype_bias == DType::kF16) {
    return Load(reinterpret_cast<const F16*>(row.bias) + begin, n);
  }
  return Load(reinterpret_cast<const BF16*>(row.bias) + begin, n);
}

/// Adds the bias; -inf stands whatever x is, NaN too.
inline F32 AddBias(const RowScores& row, int begin, int n, F32 x) {
  const F32 bias = LoadBias(row, begin, n);
  const F32 smallest = F32::Set(-3.4028234663852886e38f);
  return SelectLess(bias, smallest, bias, Fma(bias, F32::Set(kLog2E), x));
}

inline constexpr float kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// Turns one row's raw scores into probabilities relative to the new maximum, in place, and also
/// into pairs of bf16 when kPairs and `pairs` is given. Bit i of `seen`: the row sees key i. Writes
/// how much the state so far counts to `alpha`; the caller applies it to o.
template <bool kPairs>
inline void SoftmaxRow(const RowScores& scores, uint64_t seen, int num_tokens, float* s,
                       [[maybe_unused]] float* pairs, const AttentionState& state, int row,
                       float* alpha) {
  constexpr int kWidth = F32::kWidth;
  constexpr uint32_t kAllLanes = (1u << kWidth) - 1;
  const F32 factor = F32::Set(scores.scale);
  const F32 minus_inf = F32::Set(kMinusInf);
  F32 largest = minus_inf;
  const int end = (num_tokens + kWidth - 1) / kWidth * kWidth;
  for (int i = 0; i < end; i += kWidth) {
    F32 x = Load(s + i) * factor;
    if (scores.slope != 0) {
      const F32 distance = F32::Set(scores.offset + static_cast<float>(i)) + Load(kLaneNumbers);
      x = Fma(F32::Set(scores.slope), distance, x);
    }
    if (scores.cap > 0) x = F32::Set(scores.cap) * Tanh(x);
    if (scores.bias != nullptr) {
      x = AddBias(scores, i, num_tokens - i < kWidth ? num_tokens - i : kWidth, x);
    }
    const uint32_t lanes = static_cast<uint32_t>(seen >> i) & kAllLanes;
    if (lanes != kAllLanes) x = SelectBits(lanes, x, minus_inf);
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
