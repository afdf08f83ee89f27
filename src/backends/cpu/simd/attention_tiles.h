// SPDX-License-Identifier: Apache-2.0
// Scores and values of a tile of keys: read in place for few rows, packed for many.
#pragma once

#include "backends/cpu/attention.h"
#include "backends/cpu/simd/attention_softmax.h"
#include "backends/cpu/simd/simd_tile.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Reading in place knows no partial vectors, of f32 nor of bf16 pairs.
inline constexpr int kInPlaceDims = 2 * F32::kWidth;
inline constexpr int kKeysInPlace = 4;
inline constexpr int kRowsInPlace = F32::kWidth / kKeysInPlace;
inline constexpr int64_t kCacheLine = 64;

/// Where a tile's keys and values are.
template <class T>
struct TilePointers {
  int count = 0;
  const T* k[kTileTokens] = {};
  const T* v[kTileTokens] = {};
};

/// The same tokens of another head.
template <class T>
inline void Move(TilePointers<T>& tile, int64_t k_stride, int64_t v_stride) {
  for (int i = 0; i < kTileTokens; ++i) {
    tile.k[i] += k_stride;
    tile.v[i] += v_stride;
  }
}

inline void PrefetchRow(const void* row, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kCacheLine) {
    __builtin_prefetch(static_cast<const char*>(row) + i);
  }
}

// ---- In place ----

/// Scores of kRows rows and 4 keys.
template <bool kPairs, int kRows, class T>
inline void ScoreBlockInPlace(const T* const* k, const float* q, int64_t q_stride, int dim,
                              float* s) {
  constexpr int kWidth = F32::kWidth;
  F32 acc[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) acc[i] = F32::Set(0.0f);
  const int words = kPairs ? dim / 2 : dim;
  for (int d = 0; d < words; d += kWidth) {
    F32 x[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) x[r] = Load(q + r * q_stride + d);
#pragma GCC unroll 4
    for (int t = 0; t < kKeysInPlace; ++t) {
#if defined(__AVX512BF16__)
      if constexpr (kPairs) {
        const F32 key{_mm512_loadu_ps(k[t] + 2 * d)};
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          acc[r * kKeysInPlace + t] = PairMath::MulAdd(x[r], key, acc[r * kKeysInPlace + t]);
        }
        continue;
      }
#endif
      const F32 key = Load(k[t] + d);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        acc[r * kKeysInPlace + t] = Fma(x[r], key, acc[r * kKeysInPlace + t]);
      }
    }
  }
  float sums[kWidth];
  Store(sums, SumEach(acc));
  for (int r = 0; r < kRows; ++r) {
    __builtin_memcpy(s + r * kTileTokens, sums + r * kKeysInPlace, kKeysInPlace * sizeof(float));
  }
}

template <bool kPairs, class T, int kRows = kRowsInPlace>
inline void ScoreRowsInPlace(const T* const* k, const float* q, int64_t q_stride, int dim, float* s,
                             int rows) {
  if (rows >= kRows) return ScoreBlockInPlace<kPairs, kRows>(k, q, q_stride, dim, s);
  if constexpr (kRows > 1) {
    ScoreRowsInPlace<kPairs, T, kRows - 1>(k, q, q_stride, dim, s, rows);
  }
}

/// s[row, key] = q · k; fetches the values ahead.
template <bool kPairs, class T>
void ScoresInPlace(const TilePointers<T>& tile, const float* q, int rows, int dim_qk, int dim_vo,
                   float* s) {
  const int64_t q_stride = PaddedDim(dim_qk);
  for (int t = 0; t < tile.count; t += kKeysInPlace) {
    for (int i = t; i < t + kKeysInPlace && i < tile.count; ++i) {
      PrefetchRow(tile.v[i], dim_vo * int64_t{sizeof(T)});
    }
    for (int row = 0; row < rows; row += kRowsInPlace) {
      ScoreRowsInPlace<kPairs>(tile.k + t, q + row * q_stride, q_stride, dim_qk,
                               s + row * kTileTokens + t, rows - row);
    }
  }
}

/// o[row, …] = alpha[row] · o[row, …] + Σ p[row, key] · v[key, …] for kVectors vectors.
template <int kRows, int kVectors, class T>
inline void ValueBlockInPlace(const TilePointers<T>& tile, const TilePointers<T>* next,
                              int64_t next_bytes, int64_t col, const float* p, const float* alpha,
                              float* o, int64_t o_stride) {
  constexpr int kWidth = F32::kWidth;
  F32 acc[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = Load(o + r * o_stride + col + v * kWidth) * F32::Set(alpha[r]);
    }
  }
  for (int t = 0; t < tile.count; ++t) {
    if (next != nullptr && t < next->count) PrefetchRow(next->k[t], next_bytes);
    F32 value[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) value[v] = Load(tile.v[t] + col + v * kWidth);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const F32 x = F32::Set(p[r * kTileTokens + t]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Fma(x, value[v], acc[r][v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Store(o + r * o_stride + col + v * kWidth, acc[r][v]);
    }
  }
}

/// ValueBlockInPlace() for `rows` up to kRows.
template <int kVectors, class T, int kRows = kBlockRows>
inline void ValueRowsInPlace(const TilePointers<T>& tile, const TilePointers<T>* next,
                             int64_t next_bytes, int64_t col, const float* p, const float* alpha,
                             float* o, int64_t o_stride, int rows) {
  if (rows >= kRows) {
    return ValueBlockInPlace<kRows, kVectors>(tile, next, next_bytes, col, p, alpha, o, o_stride);
  }
  if constexpr (kRows > 1) {
    ValueRowsInPlace<kVectors, T, kRows - 1>(tile, next, next_bytes, col, p, alpha, o, o_stride,
                                             rows);
  }
}

/// Adds the tile's values to o; fetches the next tile's keys ahead.
template <class T>
void ValuesInPlace(const TilePointers<T>& tile, const TilePointers<T>& next, const float* p,
                   int rows, int dim_qk, int dim_vo, const float* alpha, float* o) {
  constexpr int kWidth = F32::kWidth;
  const int64_t o_stride = PaddedDim(dim_vo);
  for (int col = 0; col < dim_vo;) {
    const bool is_wide = dim_vo - col >= kBlockVectors * kWidth;
    for (int row = 0; row < rows; row += kBlockRows) {
      const TilePointers<T>* fetch = col == 0 && row == 0 ? &next : nullptr;
      const auto run = [&]<int kVectors>() {
        ValueRowsInPlace<kVectors>(tile, fetch, dim_qk * int64_t{sizeof(T)}, col,
                                   p + row * kTileTokens, alpha + row, o + row * o_stride, o_stride,
                                   rows - row);
      };
      if (is_wide) {
        run.template operator()<kBlockVectors>();
      } else {
        run.template operator()<1>();
      }
    }
    col += is_wide ? kBlockVectors * kWidth : kWidth;
  }
}

// ---- Packed ----

/// Word `w` of each key side by side: k[w * kTileTokens + key]; keys that are not there are 0.
template <bool kPairs, class T>
void TransposeKeys(const TilePointers<T>& tile, int dim, float* k) {
  constexpr int kWidth = F32::kWidth;
  const int words = kPairs ? dim / 2 : dim;
  for (int t = 0; t < tile.count; t += kWidth) {
    for (int w = 0; w < words; w += kWidth) {
      const int n = words - w < kWidth ? words - w : kWidth;
      F32 block[kWidth];
      for (int i = 0; i < kWidth; ++i) {
        if (t + i >= tile.count) {
          block[i] = F32::Set(0.0f);
        } else if constexpr (kPairs) {
          block[i] = Load(reinterpret_cast<const float*>(tile.k[t + i]) + w, n);
        } else {
          block[i] = Load(tile.k[t + i] + w, n);
        }
      }
      Transpose(block);
      for (int i = 0; i < n; ++i) Store(k + (w + i) * kTileTokens + t, block[i]);
    }
  }
}

template <class Math>
inline void MultiplyKeys(const float* q, int64_t q_stride, const float* k, int words, int rows,
                         int num_tokens, float* s) {
  const int64_t cols = (num_tokens + F32::kWidth - 1) / F32::kWidth * F32::kWidth;
  Multiply<Math>({q, q_stride, k, kTileTokens, words, s, kTileTokens, nullptr}, rows, cols);
}

/// s[row, key] = q · k by way of `k_tile`.
template <bool kPairs, class T>
void ScoresTransposed(const TilePointers<T>& tile, const float* q, int rows, int dim, float* k_tile,
                      float* s) {
  TransposeKeys<kPairs>(tile, dim, k_tile);
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    return MultiplyKeys<PairMath>(q, PaddedDim(dim), k_tile, dim / 2, rows, tile.count, s);
  }
#endif
  MultiplyKeys<FloatMath>(q, PaddedDim(dim), k_tile, dim, rows, tile.count, s);
}

/// Adds the tile's values to o by way of `v_tile`.
template <bool kPairs, class T>
void ValuesPacked(const TilePointers<T>& tile, const float* p, [[maybe_unused]] const float* pairs,
                  int rows, int dim, const float* alpha, float* v_tile, float* o) {
  constexpr int kWidth = F32::kWidth;
  const int64_t stride = PaddedDim(dim);
  const int64_t cols = (dim + kWidth - 1) / kWidth * kWidth;
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    for (int t = 0; t < tile.count; t += 2) {
      const T* second = t + 1 < tile.count ? tile.v[t + 1] : nullptr;
      for (int i = 0; i < dim; i += kWidth) {
        const int n = dim - i < kWidth ? dim - i : kWidth;
        Store(v_tile + t / 2 * stride + i,
              second != nullptr ? Interleave(tile.v[t] + i, second + i, n)
                                : F32{_mm512_castsi512_ps(_mm512_cvtepu16_epi32(
                                      _mm256_maskz_loadu_epi16(FirstLanes(n), tile.v[t] + i)))});
      }
    }
    return Multiply<PairMath>(
        {pairs, kTileTokens / 2, v_tile, stride, (tile.count + 1) / 2, o, stride, alpha}, rows,
        cols);
  }
#endif
  for (int t = 0; t < tile.count; ++t) {
    for (int i = 0; i < dim; i += kWidth) {
      Store(v_tile + t * stride + i, Load(tile.v[t] + i, dim - i < kWidth ? dim - i : kWidth));
    }
  }
  Multiply<FloatMath>({p, kTileTokens, v_tile, stride, tile.count, o, stride, alpha}, rows, cols);
}

template <class T>
bool AllFinite(const TilePointers<T>& tile, int dim) {
  F32 zeros = F32::Set(0.0f);  // Inf and NaN times 0 are NaN
  for (int t = 0; t < tile.count; ++t) {
    for (int i = 0; i < dim; i += F32::kWidth) {
      const int n = dim - i < F32::kWidth ? dim - i : F32::kWidth;
      zeros = Fma(Load(tile.v[t] + i, n), F32::Set(0.0f), zeros);
    }
  }
  return Sum(zeros) == 0;
}

/// ValuesPacked() where a value that some row does not see is not finite: skips such products.
template <class T>
void ValuesOneByOne(const TilePointers<T>& tile, const float* p, int rows, int dim,
                    const float* alpha, float* o) {
  for (int r = 0; r < rows; ++r) {
    float* row = o + r * PaddedDim(dim);
    for (int i = 0; i < dim; ++i) row[i] *= alpha[r];
    for (int t = 0; t < tile.count; ++t) {
      const float weight = p[r * kTileTokens + t];
      if (weight == 0) continue;
      for (int i = 0; i < dim; ++i) row[i] += weight * ToFloat(tile.v[t][i]);
    }
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
