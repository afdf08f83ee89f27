// SPDX-License-Identifier: Apache-2.0
// Pieces of kernels that work on tiles: transposes, sums of many vectors, register-blocked
// products.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

// Register block of a product: kBlockRows x kBlockVectors accumulators, and room for one row of
// vectors and a broadcast.
#if defined(__AVX512F__)
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = 4;
#elif defined(__AVX2__)
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = 2;
#else
inline constexpr int kBlockRows = 2;
inline constexpr int kBlockVectors = 2;
#endif

#if defined(__AVX512F__)

inline float FirstLane(F32 a) { return _mm512_cvtss_f32(a.v); }

/// Lane i: the lanes of a[i] joined by `op`.
template <class Op>
inline F32 JoinEach(const F32 (&a)[F32::kWidth], Op op) {
  F32 t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[i] = op(F32{_mm512_unpacklo_ps(a[2 * i].v, a[2 * i + 1].v)},
              F32{_mm512_unpackhi_ps(a[2 * i].v, a[2 * i + 1].v)});
  }
  F32 u[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512d x = _mm512_castps_pd(t[2 * i].v);
    const __m512d y = _mm512_castps_pd(t[2 * i + 1].v);
    u[i] = op(F32{_mm512_castpd_ps(_mm512_unpacklo_pd(x, y))},
              F32{_mm512_castpd_ps(_mm512_unpackhi_pd(x, y))});
  }
  const auto halves = [&](F32 x, F32 y) {
    return op(F32{_mm512_shuffle_f32x4(x.v, y.v, 0x88)}, F32{_mm512_shuffle_f32x4(x.v, y.v, 0xdd)});
  };
  return halves(halves(u[0], u[1]), halves(u[2], u[3]));
}

/// Transposes kWidth x kWidth words.
inline void Transpose(F32 (&r)[F32::kWidth]) {
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
  }
  __m512 u[16];  // u[4 g + j]: column 4 lane + j of rows 4 g … 4 g + 3, in each 128-bit lane
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    for (int j = 0; j < 2; ++j) {
      const __m512d x = _mm512_castps_pd(t[4 * g + j]);
      const __m512d y = _mm512_castps_pd(t[4 * g + 2 + j]);
      u[4 * g + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      u[4 * g + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88);       // lanes 0 2
    const __m512 b = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88);  // of four row groups
    const __m512 c = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xdd);       // lanes 1 3
    const __m512 d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xdd);
    r[j].v = _mm512_shuffle_f32x4(a, b, 0x88);
    r[4 + j].v = _mm512_shuffle_f32x4(c, d, 0x88);
    r[8 + j].v = _mm512_shuffle_f32x4(a, b, 0xdd);
    r[12 + j].v = _mm512_shuffle_f32x4(c, d, 0xdd);
  }
}

#elif defined(__AVX2__)

inline float FirstLane(F32 a) { return _mm256_cvtss_f32(a.v); }

/// Lane i: the lanes of a[i] joined by `op`.
template <class Op>
inline F32 JoinEach(const F32 (&a)[F32::kWidth], Op op) {
  const auto four = [&](const F32* x) {
    const F32 low =
        op(F32{_mm256_unpacklo_ps(x[0].v, x[1].v)}, F32{_mm256_unpackhi_ps(x[0].v, x[1].v)});
    const F32 high =
        op(F32{_mm256_unpacklo_ps(x[2].v, x[3].v)}, F32{_mm256_unpackhi_ps(x[2].v, x[3].v)});
    return op(F32{_mm256_shuffle_ps(low.v, high.v, 0x44)},
              F32{_mm256_shuffle_ps(low.v, high.v, 0xee)});
  };
  const F32 low = four(a);
  const F32 high = four(a + 4);
  return op(F32{_mm256_permute2f128_ps(low.v, high.v, 0x20)},
            F32{_mm256_permute2f128_ps(low.v, high.v, 0x31)});
}

/// Transposes kWidth x kWidth words.
inline void Transpose(F32 (&r)[F32::kWidth]) {
  __m256 u[8];
#pragma GCC unroll 2
  for (int g = 0; g < 2; ++g) {
    const __m256 lo0 = _mm256_unpacklo_ps(r[4 * g].v, r[4 * g + 1].v);
    const __m256 hi0 = _mm256_unpackhi_ps(r[4 * g].v, r[4 * g + 1].v);
    const __m256 lo1 = _mm256_unpacklo_ps(r[4 * g + 2].v, r[4 * g + 3].v);
    const __m256 hi1 = _mm256_unpackhi_ps(r[4 * g + 2].v, r[4 * g + 3].v);
    u[4 * g] = _mm256_shuffle_ps(lo0, lo1, 0x44);
    u[4 * g + 1] = _mm256_shuffle_ps(lo0, lo1, 0xee);
    u[4 * g + 2] = _mm256_shuffle_ps(hi0, hi1, 0x44);
    u[4 * g + 3] = _mm256_shuffle_ps(hi0, hi1, 0xee);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    r[j].v = _mm256_permute2f128_ps(u[j], u[4 + j], 0x20);
    r[4 + j].v = _mm256_permute2f128_ps(u[j], u[4 + j], 0x31);
  }
}

#else

inline float FirstLane(F32 a) { return a.v[0]; }

/// Lane i: the lanes of a[i] joined by `op`.
template <class Op>
inline F32 JoinEach(const F32 (&a)[F32::kWidth], Op op) {
  F32 joined;
  for (int i = 0; i < F32::kWidth; ++i) {
    F32 x = a[i];
    for (int n = F32::kWidth / 2; n > 0; n /= 2) {
      x = op(x, Map([&](int lane) { return x.v[lane + n < F32::kWidth ? lane + n : lane]; }));
    }
    joined.v[i] = x.v[0];
  }
  return joined;
}

/// Transposes kWidth x kWidth words.
inline void Transpose(F32 (&r)[F32::kWidth]) {
  for (int i = 0; i < F32::kWidth; ++i) {
    for (int j = 0; j < i; ++j) {
      const float t = r[i].v[j];
      r[i].v[j] = r[j].v[i];
      r[j].v[i] = t;
    }
  }
}

#endif

/// Lane i: the sum, or the largest, of a[i].
inline F32 SumEach(const F32 (&a)[F32::kWidth]) {
  return JoinEach(a, [](F32 x, F32 y) { return x + y; });
}
inline F32 MaxEach(const F32 (&a)[F32::kWidth]) {
  return JoinEach(a, [](F32 x, F32 y) { return Max(x, y); });
}

/// Products of floats: a word is one float.
struct FloatMath {
  static F32 MulAdd(F32 a, F32 b, F32 c) { return Fma(a, b, c); }
};

#if defined(__AVX512BF16__)
/// Products of pairs of bf16: a word is two elements that are added up. Subnormals count as 0.
struct PairMath {
  static F32 MulAdd(F32 a, F32 b, F32 c) {
    return {_mm512_dpbf16_ps(c.v, (__m512bh)a.v, (__m512bh)b.v)};
  }
};

/// Writes 16 floats as 8 words of bf16, subnormals as 0.
inline void StorePairs(float* words, F32 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), (__m256i)_mm512_cvtneps_pbh(v.v));
}

/// Writes 32 floats as 16 words.
inline void StorePairs(float* words, F32 low, F32 high) {
  _mm512_storeu_si512(words, (__m512i)_mm512_cvtne2ps_pbh(high.v, low.v));
}

/// Words of (first[i], second[i]); the first `n` elements.
inline F32 Interleave(const BF16* first, const BF16* second, int n) {
  const __m512i a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(FirstLanes(n), first));
  const __m512i b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(FirstLanes(n), second));
  return {_mm512_castsi512_ps(_mm512_or_si512(a, _mm512_slli_epi32(b, 16)))};
}
#endif

/// c = scale · c + a · b for a [rows, steps] and b [steps, cols] in words; strides count words.
struct Product {
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  int steps;
  float* c;
  int64_t c_stride;
  const float* scale;  ///< per row; null: c is not read
};

template <class Math, int kRows, int kVectors>
inline void MultiplyBlock(const Product& p) {
  constexpr int kWidth = F32::kWidth;
  F32 acc[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      acc[r][v] = p.scale == nullptr
                      ? F32::Set(0.0f)
                      : Load(p.c + r * p.c_stride + v * kWidth) * F32::Set(p.scale[r]);
    }
  }
  const float* b = p.b;
  for (int s = 0; s < p.steps; ++s, b += p.b_stride) {
    F32 bs[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) bs[v] = Load(b + v * kWidth);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const F32 x = F32::Set(p.a[r * p.a_stride + s]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Math::MulAdd(x, bs[v], acc[r][v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Store(p.c + r * p.c_stride + v * kWidth, acc[r][v]);
  }
}

template <class Math, int kVectors, int kRows = kBlockRows>
inline void MultiplyRows(const Product& p, int rows) {
  if (rows == kRows) return MultiplyBlock<Math, kRows, kVectors>(p);
  if constexpr (kRows > 1) MultiplyRows<Math, kVectors, kRows - 1>(p, rows);
}

/// The whole product; `cols` is a multiple of the vector width. `between` is called before each
/// block of kBlockRows rows.
template <class Math, class Between>
void Multiply(const Product& whole, int rows, int64_t cols, Between&& between) {
  for (int64_t col = 0; col < cols;) {
    const bool is_wide = cols - col >= kBlockVectors * F32::kWidth;
    for (int row = 0; row < rows; row += kBlockRows) {
      between();
      Product p = whole;
      p.a += row * p.a_stride;
      p.b += col;
      p.c += row * p.c_stride + col;
      if (p.scale != nullptr) p.scale += row;
      const int n = rows - row < kBlockRows ? rows - row : kBlockRows;
      if (is_wide) {
        MultiplyRows<Math, kBlockVectors>(p, n);
      } else {
        MultiplyRows<Math, 1>(p, n);
      }
    }
    col += is_wide ? kBlockVectors * F32::kWidth : F32::kWidth;
  }
}

template <class Math>
void Multiply(const Product& whole, int rows, int64_t cols) {
  Multiply<Math>(whole, rows, cols, [] {});
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
