// SPDX-License-Identifier: Apache-2.0
// Stores of integers, and loads and stores of 4-bit floats, as vectors of floats.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

// Integers are rounded to nearest even and saturated; NaN becomes 0.

#if defined(__AVX512F__)

/// At most 127; what is too small for an integer is the least one.
inline __m512i RoundedUpTo127(F32 v) {
  const __mmask16 is_number = _mm512_cmp_ps_mask(v.v, v.v, _CMP_ORD_Q);
  return _mm512_maskz_cvtps_epi32(is_number, Min(v, F32::Set(127.0f)).v);
}
inline void StoreAs(int8_t* p, F32 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(RoundedUpTo127(v)));
}
inline void StorePartial(int8_t* p, F32 v, int n) {
  _mm_mask_storeu_epi8(p, FirstLanes(n), _mm512_cvtsepi32_epi8(RoundedUpTo127(v)));
}
inline __m512i LineOf(const F32 (&v)[4], int8_t) {
  return LineOfPacked(
      _mm512_packs_epi16(_mm512_packs_epi32(RoundedUpTo127(v[0]), RoundedUpTo127(v[1])),
                         _mm512_packs_epi32(RoundedUpTo127(v[2]), RoundedUpTo127(v[3]))));
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

/// The codes in the first F32::kWidth bytes.
inline __m128i RoundedBytes(F32 v) {
  const __m256 low = _mm256_set1_ps(-128.0f);
  const __m256 high = _mm256_set1_ps(127.0f);
  const __m256 number = _mm256_and_ps(v.v, _mm256_cmp_ps(v.v, v.v, _CMP_ORD_Q));
  const __m256i whole = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(number, high), low));
  return LowBytes(I32{whole});
}
inline void StoreAs(int8_t* p, F32 v) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), RoundedBytes(v));
}
inline void StorePartial(int8_t* p, F32 v, int n) {
  int8_t lanes[F32::kWidth];
  StoreAs(lanes, v);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
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

inline void StorePartial(int8_t* p, F32 v, int n) {
  const F32 clamped = Max(Min(v, F32::Set(127.0f)), F32::Set(-128.0f));
  const F32 whole = Round(clamped);
  for (int i = 0; i < n; ++i) p[i] = v.v[i] == v.v[i] ? static_cast<int8_t>(whole.v[i]) : int8_t{0};
}
inline void StoreAs(int8_t* p, F32 v) { StorePartial(p, v, F32::kWidth); }

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
