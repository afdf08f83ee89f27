// SPDX-License-Identifier: Apache-2.0
// Dot products of unsigned 8-bit weights with signed 8-bit activations, F32::kWidth rows at a time.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

/// Largest weight that a dot product meets: the instructions without VNNI add pairs in 16 bits.
enum class QuantBits { k6, k8 };

#if defined(__AVX512F__)

/// Four bytes for each of F32::kWidth rows.
struct U8 {
  __m512i v;
  static U8 Set(uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
};
inline U8 operator|(U8 a, U8 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline U8 operator&(U8 a, U8 b) { return {_mm512_and_si512(a.v, b.v)}; }
/// Two bytes together; to the right where `n` is negative.
inline U8 ShiftWords(U8 x, int n) {
  return n < 0 ? U8{_mm512_srli_epi16(x.v, static_cast<unsigned>(-n))}
               : U8{_mm512_slli_epi16(x.v, static_cast<unsigned>(n))};
}
inline U8 LoadU8(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
/// Bytes below 16 as indices into a table.
inline U8 LookUp(const uint8_t (&table)[16], U8 index) {
  const __m512i all =
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm512_shuffle_epi8(all, index.v)};
}
/// Sums of four products, of which two must fit 16 bits.
inline I32 SumsOfFour(U8 w, I32 a) {
  return {_mm512_madd_epi16(_mm512_maddubs_epi16(w.v, a.v), _mm512_set1_epi16(1))};
}
/// F32::kWidth bytes as floats.
inline F32 LoadBytes(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
/// Rounds to nearest even and stores as bytes; |x| <= 127.
inline void StoreBytes(int8_t* p, F32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v)));
}
inline int32_t SumBytes16(const int8_t* p) {
  return _mm512_reduce_add_epi32(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

#elif defined(__AVX2__)

/// Four bytes for each of F32::kWidth rows.
struct U8 {
  __m256i v;
  static U8 Set(uint8_t x) { return {_mm256_set1_epi8(static_cast<char>(x))}; }
};
inline U8 operator|(U8 a, U8 b) { return {_mm256_or_si256(a.v, b.v)}; }
inline U8 operator&(U8 a, U8 b) { return {_mm256_and_si256(a.v, b.v)}; }
/// Two bytes together; to the right where `n` is negative.
inline U8 ShiftWords(U8 x, int n) {
  return n < 0 ? U8{_mm256_srli_epi16(x.v, -n)} : U8{_mm256_slli_epi16(x.v, n)};
}
inline U8 LoadU8(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
/// Bytes below 16 as indices into a table.
inline U8 LookUp(const uint8_t (&table)[16], U8 index) {
  const __m256i all =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(all, index.v)};
}
/// Sums of four products, of which two must fit 16 bits.
inline I32 SumsOfFour(U8 w, I32 a) {
  return {_mm256_madd_epi16(_mm256_maddubs_epi16(w.v, a.v), _mm256_set1_epi16(1))};
}
/// F32::kWidth bytes as floats.
inline F32 LoadBytes(const uint8_t* p) {
  return {_mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
}
/// Rounds to nearest even and stores as bytes; |x| <= 127.
inline void StoreBytes(int8_t* p, F32 x) {
  const __m256i whole = _mm256_cvtps_epi32(x.v);
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

#else

/// Four bytes for each of F32::kWidth rows.
struct U8 {
  uint8_t v[4 * F32::kWidth];
};
template <class Function>
inline U8 MapBytes(Function function) {
  U8 r;
  for (int i = 0; i < 4 * F32::kWidth; ++i) r.v[i] = static_cast<uint8_t>(function(i));
  return r;
}
inline U8 LoadU8(const uint8_t* p) {
  return MapBytes([&](int i) { return p[i]; });
}
inline U8 LowNibbles(U8 x) {
  return MapBytes([&](int i) { return x.v[i] & 15; });
}
inline U8 HighNibbles(U8 x) {
  return MapBytes([&](int i) { return x.v[i] >> 4; });
}
/// Bits 2i and 2i+1 of each byte, as bits 4 and 5.
template <int kIndex>
inline U8 HighBits(U8 x) {
  return MapBytes([&](int i) { return ((x.v[i] >> (2 * kIndex)) & 3) << 4; });
}
/// Bit `kIndex` of each byte, as bit 4.
template <int kIndex>
inline U8 FifthBit(U8 x) {
  return MapBytes([&](int i) { return ((x.v[i] >> kIndex) & 1) << 4; });
}
/// Bytes below 16 as indices into a table.
inline U8 LookUp(const uint8_t (&table)[16], U8 index) {
  return MapBytes([&](int i) { return table[index.v[i]]; });
}
inline U8 operator|(U8 a, U8 b) {
  return MapBytes([&](int i) { return a.v[i] | b.v[i]; });
}
/// acc + Σ of four products per row; every lane of `a` holds four activations.
template <QuantBits kBits>
inline I32 Dot(I32 acc, U8 w, I32 a) {
  int8_t x[4];
  __builtin_memcpy(x, a.v, 4);
  for (int row = 0; row < F32::kWidth; ++row) {
    for (int j = 0; j < 4; ++j) acc.v[row] += w.v[4 * row + j] * x[j];
  }
  return acc;
}
/// F32::kWidth bytes as floats.
inline F32 LoadBytes(const uint8_t* p) {
  return Map([&](int i) { return static_cast<float>(p[i]); });
}
/// Rounds to nearest even and stores as bytes; |x| <= 127.
inline void StoreBytes(int8_t* p, F32 x) {
  const F32 whole = Round(x);
  for (int i = 0; i < F32::kWidth; ++i) p[i] = static_cast<int8_t>(whole.v[i]);
}

#endif

#if defined(__AVX2__)

inline U8 LowNibbles(U8 x) { return x & U8::Set(0x0f); }
inline U8 HighNibbles(U8 x) { return ShiftWords(x, -4) & U8::Set(0x0f); }
/// Bits 2i and 2i+1 of each byte, as bits 4 and 5.
template <int kIndex>
inline U8 HighBits(U8 x) {
  return ShiftWords(x, 4 - 2 * kIndex) & U8::Set(0x30);
}
/// Bit `kIndex` of each byte, as bit 4.
template <int kIndex>
inline U8 FifthBit(U8 x) {
  return ShiftWords(x, 4 - kIndex) & U8::Set(0x10);
}
/// acc + Σ of four products per row; every lane of `a` holds four activations.
template <QuantBits kBits>
inline I32 Dot(I32 acc, U8 w, I32 a) {
#if defined(__AVX512VNNI__)
  return {_mm512_dpbusd_epi32(acc.v, w.v, a.v)};
#else
  if constexpr (kBits == QuantBits::k6) return acc + SumsOfFour(w, a);
  return acc + (SumsOfFour(w & U8::Set(0x7f), a) + SumsOfFour(w & U8::Set(0x80), a));
#endif
}

#endif

#if !defined(__AVX512F__)
inline int32_t SumBytes16(const int8_t* p) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += p[i];
  return sum;
}
#endif

}  // namespace flashinfer::cpu::FLASHINFER_ISA
