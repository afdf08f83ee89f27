// SPDX-License-Identifier: Apache-2.0
// Loads and stores of 8-bit floats as vectors of floats; included by simd.h.
#pragma once

namespace flashinfer::cpu::FLASHINFER_ISA {

#if defined(__AVX2__)

/// What FromFloat() of core/convert.h does, as numbers: a mantissa's width, the exponent of the
/// smallest normal value, the largest value, and what stands for NaN.
template <class T>
struct NarrowFormat;
template <>
struct NarrowFormat<E4M3> {
  static constexpr int kMantissa = 3;
  static constexpr int kMinExponent = -6;
  static constexpr float kMax = 448.0f;
  static constexpr int kNan = 0x7f;
  static constexpr int kSignShift = 24;  // from bit 31 of a float
};
template <>
struct NarrowFormat<E5M2> {
  static constexpr int kMantissa = 2;
  static constexpr int kMinExponent = -14;
  static constexpr float kMax = 57344.0f;
  static constexpr int kNan = 0x7e;
  static constexpr int kSignShift = 24;
};
template <>
struct NarrowFormat<E2M1> {
  static constexpr int kMantissa = 1;
  static constexpr int kMinExponent = 0;
  static constexpr float kMax = 6.0f;
  static constexpr int kNan = 7;
  static constexpr int kSignShift = 28;
};

#if defined(__AVX512F__)

/// For each exponent of the format, at its place modulo 32, a number whose sum with a magnitude of
/// that exponent is rounded to the format's mantissa and ends in the format's code.
template <class T>
struct NarrowMagic {
  using Format = NarrowFormat<T>;
  static constexpr int kMaxExponent = (std::bit_cast<int32_t>(Format::kMax) >> 23) - 127;
  alignas(64) int32_t bits[32] = {};
  constexpr NarrowMagic() {
    for (int e = Format::kMinExponent; e <= kMaxExponent; ++e) {
      bits[(e + 127) % 32] = ((e + 127 + 23 - Format::kMantissa) << 23) +
                             ((e - Format::kMinExponent) << Format::kMantissa);
    }
  }
};

/// Codes of magnitudes in the low words of 32-bit lanes; what is above a low word means nothing.
template <class T>
inline __m512i MagnitudeCodes(F32 v) {
  using Format = NarrowFormat<T>;
  static constexpr NarrowMagic<T> kMagic;
  constexpr float kMinNormal = std::bit_cast<float>((127 + Format::kMinExponent) << 23);
  const F32 size = Min(Abs(v), F32::Set(Format::kMax));
  const __m512i exponents = ShiftRight(BitsOf(Max(size, F32::Set(kMinNormal))), 23).v;
  const __m512i magic = _mm512_permutex2var_epi32(_mm512_load_si512(kMagic.bits), exponents,
                                                  _mm512_load_si512(kMagic.bits + 16));
  const I32 sum = BitsOf(size + F32{_mm512_castsi512_ps(magic)});
  return SelectNan(v, I32::Set(Format::kNan), sum).v;
}

/// Codes of a narrow format in the low bytes of 32-bit lanes; what is above a low byte means
/// nothing.
template <class T>
inline I32 NarrowCodes(F32 v) {
  using Format = NarrowFormat<T>;
  return I32{MagnitudeCodes<T>(v)} |
         (ShiftRight(BitsOf(v), Format::kSignShift) & I32::Set(1 << (31 - Format::kSignShift)));
}

#else

/// Codes of a narrow format in the low bytes of 32-bit lanes, rounded by the steps of
/// convert_detail::RoundMagnitude(); what is above a low byte means nothing.
template <class T>
inline I32 NarrowCodes(F32 v) {
  using Format = NarrowFormat<T>;
  constexpr int kShift = 23 - Format::kMantissa;
  constexpr int kBias = (127 + Format::kMinExponent - 1) << 23;
  constexpr int kMagic = (127 + Format::kMinExponent - Format::kMantissa + 23) << 23;
  constexpr float kMinNormal = std::bit_cast<float>((127 + Format::kMinExponent) << 23);
  const F32 size = Min(Abs(v), F32::Set(Format::kMax));
  const I32 bits = BitsOf(size);
  const I32 odd = ShiftRight(bits, kShift) & I32::Set(1);
  const I32 normal = ShiftRight(bits + I32::Set((1 << (kShift - 1)) - 1 - kBias) + odd, kShift);
  const I32 subnormal = BitsOf(size + F32::Set(std::bit_cast<float>(kMagic)));
  const I32 code = SelectNan(v, I32::Set(Format::kNan),
                             SelectLess(size, F32::Set(kMinNormal), subnormal, normal));
  return code |
         (ShiftRight(BitsOf(v), Format::kSignShift) & I32::Set(1 << (31 - Format::kSignShift)));
}

#endif

#endif

#if defined(__AVX512F__)

inline F32 WidenFp8(__m128i codes, E4M3) {
  const __m256i words = _mm256_cvtepu8_epi16(codes);
  const __m256i fields = _mm256_and_si256(words, _mm256_set1_epi16(0x7f));
  const __mmask16 is_nan = _mm256_cmpeq_epi16_mask(fields, _mm256_set1_epi16(0x7f));
  const __m256i size =
      _mm256_mask_blend_epi16(is_nan, _mm256_slli_epi16(fields, 7), _mm256_set1_epi16(0x7e00));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(words, fields), 8);
  return FromF16(_mm256_or_si256(size, sign)) * F32::Set(256.0f);  // the exponents' biases differ
}
inline F32 WidenFp8(__m128i codes, E5M2) {
  return FromF16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8));
}

template <class T>
requires(sizeof(T) == 1) inline F32 LoadAs(const T* p) {
  return WidenFp8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), T{});
}
template <class T>
requires(sizeof(T) == 1) inline F32 LoadPartial(const T* p, int n) {
  return WidenFp8(_mm_maskz_loadu_epi8(FirstLanes(n), p), T{});
}
template <class T>
requires(sizeof(T) == 1) inline void StoreAs(T* p, F32 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), LowBytes(NarrowCodes<T>(v)));
}
template <class T>
requires(sizeof(T) == 1) inline void StorePartial(T* p, F32 v, int n) {
  _mm_mask_storeu_epi8(p, FirstLanes(n), LowBytes(NarrowCodes<T>(v)));
}

/// A cache line of codes.
template <class T>
requires(sizeof(T) == 1) inline __m512i LineOf(const F32 (&v)[4], T) {
  alignas(64) static constexpr uint16_t kLowWords[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                         22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42,
                                                         44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
  const __m512i words = _mm512_load_si512(kLowWords);
  const __m512i halves = _mm512_packus_epi16(
      _mm512_permutex2var_epi16(MagnitudeCodes<T>(v[0]), words, MagnitudeCodes<T>(v[1])),
      _mm512_permutex2var_epi16(MagnitudeCodes<T>(v[2]), words, MagnitudeCodes<T>(v[3])));
  const __m512i codes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), halves);
  const __m512i signs =
      LineOfPacked(_mm512_packs_epi16(_mm512_packs_epi32(BitsOf(v[0]).v, BitsOf(v[1]).v),
                                      _mm512_packs_epi32(BitsOf(v[2]).v, BitsOf(v[3]).v)));
  constexpr int kFirstOrMasked = 0xf8;  // a | (b & c)
  return _mm512_ternarylogic_epi64(codes, signs, _mm512_set1_epi8(-128), kFirstOrMasked);
}

#elif defined(__AVX2__)

inline F32 WidenFp8(__m128i codes, E4M3) {
  const __m128i words = _mm_cvtepu8_epi16(codes);
  const __m128i fields = _mm_and_si128(words, _mm_set1_epi16(0x7f));
  const __m128i is_nan = _mm_cmpeq_epi16(fields, _mm_set1_epi16(0x7f));
  const __m128i size = _mm_blendv_epi8(_mm_slli_epi16(fields, 7), _mm_set1_epi16(0x7e00), is_nan);
  const __m128i sign = _mm_slli_epi16(_mm_xor_si128(words, fields), 8);
  // The exponents' biases differ.
  return F32{_mm256_cvtph_ps(_mm_or_si128(size, sign))} * F32::Set(256.0f);
}
inline F32 WidenFp8(__m128i codes, E5M2) {
  return {_mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(codes), 8))};
}

template <class T>
requires(sizeof(T) == 1) inline F32 LoadAs(const T* p) {
  return WidenFp8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), T{});
}
template <class T>
requires(sizeof(T) == 1) inline F32 LoadPartial(const T* p, int n) {
  T lanes[F32::kWidth] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return LoadAs(lanes);
}
template <class T>
requires(sizeof(T) == 1) inline void StoreAs(T* p, F32 v) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), LowBytes(NarrowCodes<T>(v)));
}
template <class T>
requires(sizeof(T) == 1) inline void StorePartial(T* p, F32 v, int n) {
  T lanes[F32::kWidth];
  StoreAs(lanes, v);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

#endif  // the plain path loads and stores any type

}  // namespace flashinfer::cpu::FLASHINFER_ISA
