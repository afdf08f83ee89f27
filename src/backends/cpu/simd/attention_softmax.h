// SPDX-License-Identifier: Apache-2.0
// The online softmax (Milakov and Gimelshein, 2018) of attention kernels, in base 2.
#pragma once

#include "backends/cpu/attention.h"
#include "backends/cpu/simd/simd_tile.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

inline constexpr float kMinusInf = -__builtin_inff();
inline constexpr float kLowestFloat = -3.4028234663852886e38f;  // only -inf is less
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
  return SelectLess(bias, F32::Set(kLowestFloat), bias, Fma(bias, F32::Set(kLog2E), x));
}

inline constexpr float kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// 2^x for x up to 0, and 0 exactly for very small ones; relative error below 2e-7, or 3e-6 where
/// the result becomes bf16.
template <bool kForBF16>
inline F32 Exp2OfNegative(F32 x) {
#if defined(__AVX512F__)
  // The whole part stays in x; of -inf the fraction is 0 and the scale 0.
  const F32 t = FractionAboveFloor(x);
  F32 p = F32::Set(kForBF16 ? 1.342668427e-02f : 1.867130070e-03f);
  if constexpr (kForBF16) {  // minimax fits of 2^t on [0, 1)
    p = Fma(p, t, F32::Set(5.224247422e-02f));
    p = Fma(p, t, F32::Set(2.412802048e-01f));
    p = Fma(p, t, F32::Set(6.930448449e-01f));
  } else {
    p = Fma(p, t, F32::Set(9.017030322e-03f));
    p = Fma(p, t, F32::Set(5.579991310e-02f));
    p = Fma(p, t, F32::Set(2.401644502e-01f));
    p = Fma(p, t, F32::Set(6.931513118e-01f));
  }
  return ScaleByPowerOfTwo(Fma(p, t, F32::Set(1.0f)), x);
#else
  return Exp2(x);
#endif
}

/// Scores of a row with keys of a tile, and which of these the row sees: bit i for key i.
struct RowTile {
  const RowScores& scores;
  uint64_t seen;
  int num_keys;
};

/// Turns raw scores into logits, in place, and returns the largest of each lane.
inline F32 RowLogits(const RowTile& row, float* s) {
  constexpr int kWidth = F32::kWidth;
  constexpr uint32_t kAllLanes = (1u << kWidth) - 1;
  const RowScores& scores = row.scores;
  const F32 factor = F32::Set(scores.scale);
  const F32 minus_inf = F32::Set(kMinusInf);
  F32 largest = minus_inf;
  for (int i = 0; i < row.num_keys; i += kWidth) {
    F32 x = Load(s + i) * factor;
    if (scores.slope != 0) {
      const F32 distance = F32::Set(scores.offset + static_cast<float>(i)) + Load(kLaneNumbers);
      x = Fma(F32::Set(scores.slope), distance, x);
    }
    if (scores.cap > 0) x = F32::Set(scores.cap) * Tanh(x);
    if (scores.bias != nullptr) {
      x = AddBias(scores, i, row.num_keys - i < kWidth ? row.num_keys - i : kWidth, x);
    }
    const uint32_t lanes = static_cast<uint32_t>(row.seen >> i) & kAllLanes;
    if (lanes != kAllLanes) x = SelectBits(lanes, x, minus_inf);
    Store(s + i, x);
    largest = Max(x, largest);
  }
  return largest;
}

/// Whether logits are raw scores times a number above 0, of whole vectors of seen keys: then they
/// need not be stored.
inline bool AreScaledOnly(const RowTile& row) {
  const RowScores& scores = row.scores;
  return scores.slope == 0 && scores.cap == 0 && scores.bias == nullptr && scores.scale > 0 &&
         row.num_keys % F32::kWidth == 0 && row.seen == ~uint64_t{0} >> (64 - row.num_keys);
}

/// Probabilities 2^(scale · s - shift) in place, or as pairs of bf16 when kPairs; returns their
/// sums.
template <bool kPairs>
inline F32 RowProbabilities(float scale, float shift, int num_keys, float* s,
                            [[maybe_unused]] float* pairs) {
  constexpr int kWidth = F32::kWidth;
  const F32 factor = F32::Set(scale);
  const F32 minus_shift = F32::Set(-shift);
  const auto probability = [&](int i) {
    return Exp2OfNegative<kPairs>(Fma(Load(s + i), factor, minus_shift));
  };
  F32 sum = F32::Set(0.0f);
  int i = 0;
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    for (; i + kWidth < num_keys; i += 2 * kWidth) {
      const F32 first = probability(i);
      const F32 second = probability(i + kWidth);
      sum = sum + (first + second);
      StorePairs(pairs + i / 2, first, second);
    }
  }
#endif
  for (; i < num_keys; i += kWidth) {
    const F32 p = probability(i);
    sum = sum + p;
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      StorePairs(pairs + i / 2, p);
      continue;
    }
#endif
    Store(s + i, p);
  }
  return sum;
}

/// The arrays of a tile, all by row.
struct SoftmaxTile {
  float* s;      ///< [rows, kTileTokens]: raw scores, then probabilities
  float* pairs;  ///< [rows, kTileTokens / 2]: probabilities where they are multiplied in pairs
  float* m;
  float* l;
  float* alpha;  ///< written: how much the state so far counts; the caller applies it to o
};

/// Up to F32::kWidth rows; `row_tile(r)` gives a row's RowTile.
template <bool kPairs, class RowTileOf>
inline void SoftmaxBlock(const SoftmaxTile& tile, int rows, RowTileOf&& row_tile) {
  constexpr int kWidth = F32::kWidth;
  F32 by_row[kWidth];
  float scales[kWidth];
  float shifts[kWidth];
  for (int r = 0; r < kWidth; ++r) by_row[r] = F32::Set(kMinusInf);
  for (int r = 0; r < rows; ++r) {
    const RowTile row = row_tile(r);
    float* s = tile.s + r * kTileTokens;
    scales[r] = 1;
    if (!AreScaledOnly(row)) {
      by_row[r] = RowLogits(row, s);
      continue;
    }
    F32 largest = Load(s);
    for (int i = kWidth; i < row.num_keys; i += kWidth) largest = Max(Load(s + i), largest);
    scales[r] = row.scores.scale;
    by_row[r] = largest * F32::Set(scales[r]);
  }
  const F32 before = Load(tile.m, rows);
  const F32 largest = Max(MaxEach(by_row), before);
  // With no key seen so far this is -inf; any finite shift makes every probability 2^-inf = 0.
  const F32 shift = SelectLess(largest, F32::Set(kLowestFloat), F32::Set(0.0f), largest);
  const F32 alpha = Exp2(before - shift);
  Store(tile.m, largest, rows);
  Store(tile.alpha, alpha, rows);
  Store(shifts, shift);
  for (int r = 0; r < rows; ++r) {
    by_row[r] =
        RowProbabilities<kPairs>(scales[r], shifts[r], row_tile(r).num_keys,
                                 tile.s + r * kTileTokens, tile.pairs + r * (kTileTokens / 2));
  }
  for (int r = rows; r < kWidth; ++r) by_row[r] = F32::Set(0.0f);
  Store(tile.l, Fma(Load(tile.l, rows), alpha, SumEach(by_row)), rows);
}

/// Turns raw scores into probabilities relative to the new maxima.
template <bool kPairs, class RowTileOf>
inline void SoftmaxRows(SoftmaxTile tile, int rows, RowTileOf&& row_tile) {
  constexpr int kWidth = F32::kWidth;
  for (int first = 0; first < rows; first += kWidth) {
    SoftmaxBlock<kPairs>(tile, rows - first < kWidth ? rows - first : kWidth,
                         [&](int r) { return row_tile(first + r); });
    tile.s += kWidth * kTileTokens;
    tile.pairs += kWidth * (kTileTokens / 2);
    tile.m += kWidth;
    tile.l += kWidth;
    tile.alpha += kWidth;
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
