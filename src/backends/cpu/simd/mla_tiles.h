// SPDX-License-Identifier: Apache-2.0
// Latent attention's tiles: queries side by side, keys as words, and the softmax across both.
#pragma once

#include <type_traits>

#include "backends/cpu/mla.h"
#include "backends/cpu/simd/attention_rows.h"
#include "backends/cpu/simd/attention_softmax.h"
#include "backends/cpu/simd/simd_tile.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

inline constexpr int kMlaCacheLine = 64;

// ---- Queries ----

/// One part of a query, of words `first_word` on: for each panel, word w of its rows goes to
/// q[w * kMlaPanel …]; rows up to a whole vector are 0.
struct QueryPart {
  const char* q;  ///< token 0, head 0
  int64_t stride_token;
  int64_t stride_head;
  int num_heads;
  int dim;
  int first_word;
  int num_words;  ///< of a whole key: the panels' distance
};

template <bool kPairs, class Q>
void PackQueries(const QueryPart& part, int64_t row_begin, int rows, float* q) {
  constexpr int kWidth = F32::kWidth;
  const int words = kPairs ? part.dim / 2 : part.dim;
  for (int first = 0; first < rows; first += kWidth) {
    float* panel = q + first / kMlaPanel * (int64_t{part.num_words} * kMlaPanel) +
                   part.first_word * kMlaPanel + first % kMlaPanel;
    for (int w = 0; w < words; w += kWidth) {
      const int n = VectorPart(words, w);
      F32 block[kWidth];
      for (int i = 0; i < kWidth; ++i) {
        const int64_t row = row_begin + first + i;
        const Q* from = reinterpret_cast<const Q*>(part.q) +
                        row / part.num_heads * part.stride_token +
                        row % part.num_heads * part.stride_head;
        if (first + i >= rows) {
          block[i] = F32::Set(0.0f);
        } else if constexpr (kPairs) {
          block[i] = Load(reinterpret_cast<const float*>(from) + w, n);
        } else {
          block[i] = Load(from + w, n);
        }
      }
      Transpose(block);
      for (int i = 0; i < n; ++i) Store(panel + (w + i) * kMlaPanel, block[i]);
    }
  }
}

// ---- Keys ----

/// Where a tile's keys are.
template <class T>
struct MlaTile {
  int count = 0;
  const T* ckv[kMlaKvTile] = {};
  const T* kpe[kMlaKvTile] = {};
  const float* scales[kMlaKvTile] = {};
};

/// Fetches token `i` of a tile ahead.
template <class T>
inline void PrefetchKey(const MlaTile<T>& tile, int i, const MlaProblem& problem) {
  if (i >= tile.count) return;
  const auto fetch = [](const T* p, int32_t dim) {
    const char* bytes = reinterpret_cast<const char*>(p);
    for (int64_t at = 0; at < dim * int64_t{sizeof(T)}; at += kMlaCacheLine) {
      __builtin_prefetch(bytes + at);
    }
  };
  fetch(tile.ckv[i], problem.head_dim_ckv);
  if (problem.head_dim_kpe > 0) fetch(tile.kpe[i], problem.head_dim_kpe);
}

/// Elements of one part of a key as words; `scales` of every `block` of them, or null. May write a
/// vector too much.
template <bool kPairs, class T>
inline void PackKey(const T* from, int dim, const float* scales, int64_t scales_stride, int block,
                    float* words) {
  if constexpr (kPairs && std::is_same_v<T, BF16>) {
    __builtin_memcpy(words, from, static_cast<size_t>(dim) * sizeof(BF16));
    return;
  }
  for (int i = 0; i < dim; i += F32::kWidth) {
    F32 x = Load(from + i, VectorPart(dim, i));
    if (scales != nullptr) x = x * F32::Set(scales[i / block * scales_stride]);
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      StorePairs(words + i / 2, x);
      continue;
    }
#endif
    Store(words + i, x);
  }
}

/// Tokens from `first` on whose keys lie at equal distances, which words can express.
inline int EvenlySpaced(const MlaTile<BF16>& tile, int first) {
  if (first + 1 >= tile.count) return 1;
  const int64_t ckv = tile.ckv[first + 1] - tile.ckv[first];
  const int64_t kpe = tile.kpe[first + 1] - tile.kpe[first];
  if (ckv % 2 != 0 || kpe % 2 != 0) return 1;
  int n = 2;
  while (first + n < tile.count && tile.ckv[first + n] - tile.ckv[first + n - 1] == ckv &&
         tile.kpe[first + n] - tile.kpe[first + n - 1] == kpe) {
    ++n;
  }
  return n;
}

/// Whether the values of `count` keys are finite; `key_at(t)` gives the words of one.
template <bool kPairs, class KeyAt>
bool MlaValuesAreFinite(const KeyAt& key_at, int count, int dim) {
  F32 zeros = F32::Set(0.0f);  // Inf and NaN times 0 are NaN
  for (int t = 0; t < count; ++t) {
    const float* key = key_at(t);
    for (int i = 0; i < dim; i += F32::kWidth) {
      const int n = VectorPart(dim, i);
      const F32 x = kPairs ? Load(reinterpret_cast<const BF16*>(key) + i, n) : Load(key + i, n);
      zeros = Fma(x, F32::Set(0.0f), zeros);
    }
  }
  return Sum(zeros) == 0;
}

#if defined(__AVX512BF16__)
/// Pairs of tokens: v[t / 2] holds (token t, token t + 1) of each dimension.
template <class KeyAt>
void PairValues(const KeyAt& key_at, int count, int dim, float* v) {
  const int64_t v_stride = PaddedDim(dim);
  for (int t = 0; t < count; t += 2, v += v_stride) {
    const auto* first = reinterpret_cast<const BF16*>(key_at(t));
    const auto* second = t + 1 < count ? reinterpret_cast<const BF16*>(key_at(t + 1)) : nullptr;
    for (int i = 0; i < dim; i += F32::kWidth) {
      const int n = VectorPart(dim, i);
      const F32 pairs = second != nullptr
                            ? Interleave(first + i, second + i, n)
                            : F32{_mm512_castsi512_ps(_mm512_cvtepu16_epi32(
                                  _mm256_maskz_loadu_epi16(FirstLanes(n), first + i)))};
      Store(v + i, pairs);
    }
  }
}
#endif

// ---- Softmax ----

/// One vector of rows: their scores [count, kMlaPanel] and what they see of the tile.
struct MlaColumn {
  float* scores;
  int count;
  const float* begins;  ///< null: every row sees every key
  const float* ends;
  float* m;
  float* l;
  float* alpha;
  float* p;  ///< [F32::kWidth, kMlaKvTile] words; pairs of tokens with kPairs
};

/// Writes a vector of words, one a row, of `num_words` tokens (or pairs) to the rows'
/// probabilities.
inline void StoreTransposed(F32 (&words)[F32::kWidth], float* p) {
  Transpose(words);
  for (int r = 0; r < F32::kWidth; ++r) Store(p + r * kMlaKvTile, words[r]);
}

/// Turns raw scores into probabilities relative to the new maximum; how much the state so far
/// counts goes to alpha, and the caller applies it to o.
template <bool kPairs>
void SoftmaxColumn(const MlaColumn& c, const RowScores& scale) {
  constexpr int kWidth = F32::kWidth;
  const F32 factor = F32::Set(scale.scale);
  const F32 minus_inf = F32::Set(kMinusInf);
  F32 m = Load(c.m);
  const F32 before = m;
  for (int t = 0; t < c.count; ++t) {
    float* s = c.scores + t * kMlaPanel;
    F32 x = Load(s) * factor;
    if (scale.cap > 0) x = F32::Set(scale.cap) * Tanh(x);
    if (c.ends != nullptr) {
      const F32 token = F32::Set(static_cast<float>(t));
      x = SelectLess(token, Load(c.ends), x, minus_inf);
      x = SelectLess(token, Load(c.begins), minus_inf, x);
    }
    Store(s, x);
    m = Max(x, m);
  }
  // With no key seen so far m is -inf; any finite value makes every probability 2^-inf = 0.
  const F32 shift = SelectLess(m, F32::Set(-3e38f), F32::Set(0.0f), m);
  const F32 alpha = Exp2(before - shift);
  F32 sum = F32::Set(0.0f);
  const auto probability = [&](int t) {
    const F32 p = t < c.count ? Exp2(Load(c.scores + t * kMlaPanel) - shift) : F32::Set(0.0f);
    sum = sum + p;
    return p;
  };
  for (int t = 0, w = 0; t < c.count; w += kWidth) {
    F32 words[kWidth];
    for (int i = 0; i < kWidth; ++i) {
#if defined(__AVX512BF16__)
      if constexpr (kPairs) {
        const auto half = [](F32 p) {
          return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(p.v));
        };
        const __m512i first = half(probability(t++));
        const __m512i second = half(probability(t++));
        words[i] = {_mm512_castsi512_ps(_mm512_or_si512(first, _mm512_slli_epi32(second, 16)))};
        continue;
      }
#endif
      words[i] = probability(t++);
    }
    StoreTransposed(words, c.p + w);
  }
  Store(c.m, m);
  Store(c.l, Fma(Load(c.l), alpha, sum));
  Store(c.alpha, alpha);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
