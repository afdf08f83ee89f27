// SPDX-License-Identifier: Apache-2.0
// Stores of integers, and loads and stores of 4-bit floats, as vectors of floats.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

#if defined(__AVX512F__)

/// The first `n` lanes rounded to nearest even and saturated; 0 for NaN.
inline void StoreRounded(int8_t* p, F32 v, int n) {
  const __m512 low = _mm512_set1_ps(-128.0f);
  const __m512 high = _mm512_set1_ps(127.0f);
  const __mmask16 is_number = _mm512_cmp_ps_mask(v.v, v.v, _CMP_ORD_Q);
  const __m512i whole =
      _mm512_maskz_cvtps_epi32(is_number, _mm512_max_ps(_mm512_min_ps(v.v, high), low));
  _mm_mask_storeu_epi8(p, FirstLanes(n), _mm512_cvtepi32_epi8(whole));
}

/// F32::kWidth values in half as many bytes, the first in a low nibble.
inline void StoreNibbles(uint8_t* p, F32 v) {
  const __m128i codes = LowBytes(NarrowCodes<E2M1>(v));
  const __m128i pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x1001));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(pairs, pairs));
}

inline F32 LoadNibbles(const uint8_t* p) {
  const __m128i words = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i spread = _mm_or_si128(words, _mm_slli_epi16(words, 4));
  const __m512i codes = _mm512_cvtepu8_epi32(_mm_and_si128(spread, _mm_set1_epi8(15)));
  const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f,
                                       -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  return {_mm512_permutexvar_ps(codes, values)};
}

#elif defined(__AVX2__)

/// The first `n` lanes rounded to nearest even and saturated; 0 for NaN.
inline void StoreRounded(int8_t* p, F32 v, int n) {
  const __m256 low = _mm256_set1_ps(-128.0f);
  const __m256 high = _mm256_set1_ps(127.0f);
  const __m256 number = _mm256_and_ps(v.v, _mm256_cmp_ps(v.v, v.v, _CMP_ORD_Q));
  const __m256i whole = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(number, high), low));
  const __m128i bytes = LowBytes(I32{whole});
  int8_t lanes[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(lanes), bytes);
  if (n == F32::kWidth) {
    __builtin_memcpy(p, lanes, F32::kWidth);
  } else {
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
  }
}

/// F32::kWidth values in half as many bytes, the first in a low nibble.
inline void StoreNibbles(uint8_t* p, F32 v) {
  const __m128i pairs = _mm_maddubs_epi16(LowBytes(NarrowCodes<E2M1>(v)), _mm_set1_epi16(0x1001));
  const int packed = _mm_cvtsi128_si32(_mm_packus_epi16(pairs, pairs));
  __builtin_memcpy(p, &packed, sizeof(packed));
}

inline F32 LoadNibbles(const uint8_t* p) {
  int packed = 0;
  __builtin_memcpy(&packed, p, sizeof(packed));
  const __m128i words = _mm_cvtepu8_epi16(_mm_cvtsi32_si128(packed));
  const __m128i spread = _mm_or_si128(words, _mm_slli_epi16(words, 4));
  const __m256i codes = _mm256_cvtepu8_epi32(_mm_and_si128(spread, _mm_set1_epi8(15)));
  const __m256 values = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
  const __m256 size = _mm256_permutevar8x32_ps(values, codes);  // by the low three bits
  const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(codes, 3), 31);
  return {_mm256_or_ps(size, _mm256_castsi256_ps(sign))};
}

#else

/// The first `n` lanes rounded to nearest even and saturated; 0 for NaN.
inline void StoreRounded(int8_t* p, F32 v, int n) {
  const F32 clamped = Max(Min(v, F32::Set(127.0f)), F32::Set(-128.0f));
  const F32 whole = Round(clamped);
  for (int i = 0; i < n; ++i) p[i] = v.v[i] == v.v[i] ? static_cast<int8_t>(whole.v[i]) : int8_t{0};
}

/// F32::kWidth values in half as many bytes, the first in a low nibble.
inline void StoreNibbles(uint8_t* p, F32 v) {
  for (int i = 0; i < F32::kWidth; i += 2) {
    const unsigned low = FromFloat<E2M1>(v.v[i]).bits;
    const unsigned high = FromFloat<E2M1>(v.v[i + 1]).bits;
    p[i / 2] = static_cast<uint8_t>(low | high << 4);
  }
}

inline F32 LoadNibbles(const uint8_t* p) {
  return Map(
      [&](int i) { return ToFloat(E2M1{static_cast<uint8_t>(p[i / 2] >> (i % 2 * 4) & 15)}); });
}

#endif

}  // namespace flashinfer::cpu::FLASHINFER_ISA
