// SPDX-License-Identifier: Apache-2.0
// Scores and values of a tile of keys: read in place for few rows, packed for many.
#pragma once

#include <type_traits>

#include "backends/cpu/attention.h"
#include "backends/cpu/simd/attention_softmax.h"
#include "backends/cpu/simd/simd_tile.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Reading in place knows no partial vectors, of f32 nor of bf16 pairs.
inline constexpr int kInPlaceDims = 2 * F32::kWidth;
inline constexpr int kKeysInPlace = 4;
inline constexpr int kRowsInPlace = F32::kWidth / kKeysInPlace;
inline constexpr int64_t kCacheLine = 64;

#if defined(__AVX512BF16__)
template <bool kPairs>
using ProductMath = std::conditional_t<kPairs, PairMath, FloatMath>;
#else
template <bool kPairs>
using ProductMath = FloatMath;
#endif

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

constexpr int LinesIn(int64_t bytes) {
  return static_cast<int>((bytes + kCacheLine - 1) / kCacheLine);
}

/// Asks for the lines of a tile's keys or values, in the order of memory, so that they are in the
/// second-level cache when their turn comes.
template <class T>
class LineFetcher {
 public:
  /// `rows`: of the first of `num_heads` heads.
  LineFetcher(const T* const* rows, int count, int num_heads, const PageStrides& strides, int dim)
      : rows_(rows),
        head_stride_(strides.head),
        heads_are_inner_(strides.head < strides.token),
        is_whole_token_(strides.head == dim && heads_are_inner_),
        run_bytes_((is_whole_token_ ? num_heads : 1) * dim * int64_t{sizeof(T)}),
        num_inner_(is_whole_token_    ? 1
                   : heads_are_inner_ ? num_heads
                                      : count),
        num_outer_(heads_are_inner_ ? count : num_heads) {
    if (count > 0) StartRun();
  }

  void Fetch(int num_lines) {
    if (line_ == nullptr) return;
#pragma GCC unroll 4
    for (int i = 0; i < num_lines; ++i) {
      __builtin_prefetch(line_, 0, 2);
      line_ += kCacheLine;
      if (line_ >= run_end_) [[unlikely]] {
        if (!StartNextRun()) return;
      }
    }
  }

 private:
  /// False at the end.
  bool StartNextRun() {
    if (++inner_ == num_inner_) {
      inner_ = 0;
      ++outer_;
    }
    if (outer_ == num_outer_) {
      line_ = nullptr;
      return false;
    }
    StartRun();
    return true;
  }

  void StartRun() {
    const int token = heads_are_inner_ ? outer_ : inner_;
    const int head = heads_are_inner_ ? inner_ : outer_;
    line_ = reinterpret_cast<const char*>(rows_[token] + head * head_stride_);
    run_end_ = line_ + run_bytes_;
  }

  const T* const* rows_;
  int64_t head_stride_;
  bool heads_are_inner_;  ///< of a token, closer than the next token
  bool is_whole_token_;   ///< of all its heads, without gaps: a run of lines
  int64_t run_bytes_;
  int num_inner_;
  int num_outer_;
  int inner_ = 0;
  int outer_ = 0;
  const char* line_ = nullptr;  ///< the next; null: none
  const char* run_end_ = nullptr;
};

// ---- In place ----

/// Of what a lane multiplies: an element, or a pair of them.
template <bool kPairs, class T>
inline constexpr int64_t kWordBytes = (kPairs ? 2 : 1) * int64_t{sizeof(T)};

/// Scores of kRows rows and 4 keys. Asks for as many lines as it reads when `fetcher` is given.
template <bool kPairs, int kRows, class T>
inline void ScoreBlockInPlace(const T* const* k, const float* q, int64_t q_stride, int dim,
                              float* s, LineFetcher<T>* fetcher) {
  constexpr int kWidth = F32::kWidth;
  F32 acc[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) acc[i] = F32::Set(0.0f);
  const int words = kPairs ? dim / 2 : dim;
  for (int d = 0; d < words; d += kWidth) {
    if (fetcher != nullptr) fetcher->Fetch(LinesIn(kKeysInPlace * kWordBytes<kPairs, T> * kWidth));
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
                             int rows, LineFetcher<T>* fetcher) {
  if (rows >= kRows) return ScoreBlockInPlace<kPairs, kRows>(k, q, q_stride, dim, s, fetcher);
  if constexpr (kRows > 1) {
    ScoreRowsInPlace<kPairs, T, kRows - 1>(k, q, q_stride, dim, s, rows, fetcher);
  }
}

/// Tokens of a tile.
struct TokenRange {
  int begin;
  int end;
};

/// Rows of packed queries and their scores.
struct ScoreProduct {
  int64_t offset;  ///< from the tile's keys
  const float* q;  ///< [rows, padded dim]
  float* s;        ///< [rows, kTileTokens]
  int rows;
  int dim;
};

/// s[row, key] = q · k for some of the keys.
template <bool kPairs, class T>
void ScoresInPlace(const TilePointers<T>& tile, TokenRange tokens, const ScoreProduct& product,
                   LineFetcher<T>& fetcher) {
  const auto [offset, q, s, rows, dim] = product;
  const int64_t q_stride = PaddedDim(dim);
  for (int t = tokens.begin; t < tokens.end; t += kKeysInPlace) {
    const T* keys[kKeysInPlace];
    for (int i = 0; i < kKeysInPlace; ++i) keys[i] = tile.k[t + i] + offset;
    for (int row = 0; row < rows; row += kRowsInPlace) {
      ScoreRowsInPlace<kPairs>(keys, q + row * q_stride, q_stride, dim, s + row * kTileTokens + t,
                               rows - row, row == 0 ? &fetcher : nullptr);
    }
  }
}

#if defined(__AVX512BF16__)
/// 32 elements of two tokens as pairs; a null second is zeros.
inline void LoadTokenPairs(const BF16* first, const BF16* second, F32* pairs) {
  alignas(64) static constexpr uint16_t kOrder[64] = {
      0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
      11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
      22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  const __m512i a = _mm512_loadu_si512(first);
  const __m512i b = second != nullptr ? _mm512_loadu_si512(second) : _mm512_setzero_si512();
  for (int i = 0; i < 2; ++i) {
    const __m512i order = _mm512_load_si512(kOrder + 32 * i);
    pairs[i].v = _mm512_castsi512_ps(_mm512_permutex2var_epi16(a, order, b));
  }
}
#endif

/// Values of token t, or of t and t + 1 as pairs.
template <bool kPairs, int kVectors, class T>
inline void LoadValues(const TilePointers<T>& tile, int t, int64_t offset, F32* values) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    const T* second = t + 1 < tile.count ? tile.v[t + 1] + offset : nullptr;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v += 2) {
      LoadTokenPairs(tile.v[t] + offset + v * F32::kWidth,
                     second != nullptr ? second + v * F32::kWidth : nullptr, values + v);
    }
    return;
  }
#endif
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) values[v] = Load(tile.v[t] + offset + v * F32::kWidth);
}

/// Adds products of rows of probabilities, or of their pairs, with values of some tokens.
struct ValueProduct {
  TokenRange tokens;   ///<
  int64_t offset;      ///< from the tile's values
  const float* p;      ///< [rows, kTileTokens], or half as many pairs
  const float* alpha;  ///< [rows]
  float* o;
  int64_t o_stride;
};

/// o[row, …] += Σ p[row, key] · v[key, …] for kVectors vectors, with o scaled by alpha[row] before
/// the tile's first key.
template <bool kPairs, int kRows, int kVectors, class T>
inline void ValueBlockInPlace(const TilePointers<T>& tile, const ValueProduct& product,
                              LineFetcher<T>* fetcher) {
  constexpr int kWidth = F32::kWidth;
  constexpr int kTokens = kPairs ? 2 : 1;
  F32 acc[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const F32 scale = F32::Set(product.tokens.begin == 0 ? product.alpha[r] : 1.0f);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = Load(product.o + r * product.o_stride + v * kWidth) * scale;
    }
  }
  for (int t = product.tokens.begin; t < product.tokens.end; t += kTokens) {
    if (fetcher != nullptr) fetcher->Fetch(LinesIn(kVectors * kWordBytes<kPairs, T> * kWidth));
    F32 value[kVectors];
    LoadValues<kPairs, kVectors>(tile, t, product.offset, value);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const F32 x = F32::Set(product.p[(r * kTileTokens + t) / kTokens]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        acc[r][v] = ProductMath<kPairs>::MulAdd(x, value[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Store(product.o + r * product.o_stride + v * kWidth, acc[r][v]);
    }
  }
}

/// ValueBlockInPlace() for `rows` up to kRows.
template <bool kPairs, int kVectors, class T, int kRows = kBlockRows>
inline void ValueRowsInPlace(const TilePointers<T>& tile, const ValueProduct& product,
                             LineFetcher<T>* fetcher, int rows) {
  if (rows >= kRows) return ValueBlockInPlace<kPairs, kRows, kVectors>(tile, product, fetcher);
  if constexpr (kRows > 1) {
    ValueRowsInPlace<kPairs, kVectors, T, kRows - 1>(tile, product, fetcher, rows);
  }
}

/// The whole product of `rows` rows and a head of `dim`.
template <bool kPairs, class T>
void ValuesInPlace(const TilePointers<T>& tile, const ValueProduct& whole, int rows, int dim,
                   LineFetcher<T>& fetcher) {
  constexpr int kWidth = F32::kWidth;
  constexpr int kFewVectors = kPairs ? 2 : 1;
  for (int col = 0; col < dim;) {
    const bool is_wide = dim - col >= kBlockVectors * kWidth;
    for (int row = 0; row < rows; row += kBlockRows) {
      ValueProduct product = whole;
      product.offset += col;
      product.p += row * kTileTokens / (kPairs ? 2 : 1);
      product.alpha += row;
      product.o += row * whole.o_stride + col;
      LineFetcher<T>* fetch = row == 0 ? &fetcher : nullptr;
      if (is_wide) {
        ValueRowsInPlace<kPairs, kBlockVectors>(tile, product, fetch, rows - row);
      } else {
        ValueRowsInPlace<kPairs, kFewVectors>(tile, product, fetch, rows - row);
      }
    }
    col += (is_wide ? kBlockVectors : kFewVectors) * kWidth;
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

template <class Math, class Between>
inline void MultiplyKeys(const float* q, int64_t q_stride, const float* k, int words, int rows,
                         int num_tokens, float* s, Between&& between) {
  const int64_t cols = (num_tokens + F32::kWidth - 1) / F32::kWidth * F32::kWidth;
  Multiply<Math>({q, q_stride, k, kTileTokens, words, s, kTileTokens, nullptr}, rows, cols,
                 between);
}

/// s[row, key] = q · k for the first `num_tokens` of TransposeKeys().
template <bool kPairs, class Between>
void ScoresTransposed(const float* k_tile, const float* q, int rows, int dim, int num_tokens,
                      float* s, Between&& between) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    return MultiplyKeys<PairMath>(q, PaddedDim(dim), k_tile, dim / 2, rows, num_tokens, s, between);
  }
#endif
  MultiplyKeys<FloatMath>(q, PaddedDim(dim), k_tile, dim, rows, num_tokens, s, between);
}

/// Values of a tile as floats, or of two tokens as pairs: [tile.count or half, padded dim].
template <bool kPairs, class T>
void PackValues(const TilePointers<T>& tile, int dim, float* v_tile) {
  constexpr int kWidth = F32::kWidth;
  const int64_t stride = PaddedDim(dim);
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    for (int t = 0; t < tile.count; t += 2) {
      const T* second = t + 1 < tile.count ? tile.v[t + 1] : nullptr;
      float* to = v_tile + t / 2 * stride;
      int i = 0;
      for (; i + 2 * kWidth <= dim; i += 2 * kWidth) {
        F32 values[2];
        LoadTokenPairs(tile.v[t] + i, second != nullptr ? second + i : nullptr, values);
        Store(to + i, values[0]);
        Store(to + i + kWidth, values[1]);
      }
      for (; i < dim; i += kWidth) {
        const int n = dim - i < kWidth ? dim - i : kWidth;
        Store(to + i, second != nullptr
                          ? Interleave(tile.v[t] + i, second + i, n)
                          : F32{_mm512_castsi512_ps(_mm512_cvtepu16_epi32(
                                _mm256_maskz_loadu_epi16(FirstLanes(n), tile.v[t] + i)))});
      }
    }
    return;
  }
#endif
  for (int t = 0; t < tile.count; ++t) {
    for (int i = 0; i < dim; i += kWidth) {
      Store(v_tile + t * stride + i, Load(tile.v[t] + i, dim - i < kWidth ? dim - i : kWidth));
    }
  }
}

/// Adds the first `num_tokens` of PackValues() to o. `p`: [rows, kTileTokens], or half as many
/// pairs.
template <bool kPairs, class Between>
void ValuesPacked(const float* v_tile, const float* p, int rows, int dim, int num_tokens,
                  const float* alpha, float* o, Between&& between) {
  constexpr int kWidth = F32::kWidth;
  const int64_t stride = PaddedDim(dim);
  const int64_t cols = (dim + kWidth - 1) / kWidth * kWidth;
#if defined(__AVX512BF16__)
  if constexpr (kPairs) {
    return Multiply<PairMath>(
        {p, kTileTokens / 2, v_tile, stride, (num_tokens + 1) / 2, o, stride, alpha}, rows, cols,
        between);
  }
#endif
  Multiply<FloatMath>({p, kTileTokens, v_tile, stride, num_tokens, o, stride, alpha}, rows, cols,
                      between);
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
/// `p`: [rows, kTileTokens], or half as many pairs.
template <bool kPairs, class T>
void ValuesOneByOne(const TilePointers<T>& tile, const float* p, int rows, int dim, int num_tokens,
                    const float* alpha, float* o) {
  const auto weight_of = [p](int i) {
    if constexpr (kPairs) return ToFloat(reinterpret_cast<const BF16*>(p)[i]);
    return p[i];
  };
  for (int r = 0; r < rows; ++r) {
    float* row = o + r * PaddedDim(dim);
    for (int i = 0; i < dim; ++i) row[i] *= alpha[r];
    for (int t = 0; t < num_tokens; ++t) {
      const float weight = weight_of(r * kTileTokens + t);
      if (weight == 0) continue;
      for (int i = 0; i < dim; ++i) row[i] += weight * ToFloat(tile.v[t][i]);
    }
  }
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
