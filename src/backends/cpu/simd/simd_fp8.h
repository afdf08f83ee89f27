// SPDX-License-Identifier: Apache-2.0
// Loads and stores of 8-bit floats as vectors of floats; included by simd.h.
#pragma once

namespace flashinfer::cpu::FLASHINFER_ISA {

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

/// Codes of a narrow format in the low bits of 32-bit lanes; the steps are those of
/// convert_detail::RoundMagnitude().
template <class T>
inline __m512i NarrowCodes(F32 v) {
  using Format = NarrowFormat<T>;
  constexpr int kShift = 23 - Format::kMantissa;
  constexpr int kMagic = (127 + Format::kMinExponent - Format::kMantissa + 23) << 23;
  const __m512i bits = _mm512_castps_si512(v.v);
  const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, Format::kSignShift),
                                        _mm512_set1_epi32(1 << (31 - Format::kSignShift)));
  const __m512 size = _mm512_min_ps(_mm512_abs_ps(v.v), _mm512_set1_ps(Format::kMax));
  const __m512i size_bits = _mm512_castps_si512(size);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(size_bits, kShift), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(
      size_bits, _mm512_add_epi32(odd, _mm512_set1_epi32((1 << (kShift - 1)) - 1)));
  const __m512i normal =
      _mm512_sub_epi32(_mm512_srli_epi32(rounded, kShift),
                       _mm512_set1_epi32((127 + Format::kMinExponent - 1) << Format::kMantissa));
  const __m512i magic = _mm512_set1_epi32(kMagic);
  const __m512i subnormal =
      _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(size, _mm512_castsi512_ps(magic))), magic);
  const __mmask16 is_small =
      _mm512_cmplt_epi32_mask(size_bits, _mm512_set1_epi32((127 + Format::kMinExponent) << 23));
  __m512i code = _mm512_mask_blend_epi32(is_small, normal, subnormal);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q);
  code = _mm512_mask_blend_epi32(is_nan, code, _mm512_set1_epi32(Format::kNan));
  return _mm512_or_si512(code, sign);
}

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
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(NarrowCodes<T>(v)));
}
template <class T>
requires(sizeof(T) == 1) inline void StorePartial(T* p, F32 v, int n) {
  _mm_mask_storeu_epi8(p, FirstLanes(n), _mm512_cvtepi32_epi8(NarrowCodes<T>(v)));
}

#elif defined(__AVX2__)

/// Codes of a narrow format in the low bits of 32-bit lanes; the steps are those of
/// convert_detail::RoundMagnitude().
template <class T>
inline __m256i NarrowCodes(F32 v) {
  using Format = NarrowFormat<T>;
  constexpr int kShift = 23 - Format::kMantissa;
  constexpr int kMagic = (127 + Format::kMinExponent - Format::kMantissa + 23) << 23;
  const __m256i bits = _mm256_castps_si256(v.v);
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, Format::kSignShift),
                                        _mm256_set1_epi32(1 << (31 - Format::kSignShift)));
  const __m256 size = _mm256_min_ps(Abs(v).v, _mm256_set1_ps(Format::kMax));
  const __m256i size_bits = _mm256_castps_si256(size);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(size_bits, kShift), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(
      size_bits, _mm256_add_epi32(odd, _mm256_set1_epi32((1 << (kShift - 1)) - 1)));
  const __m256i normal =
      _mm256_sub_epi32(_mm256_srli_epi32(rounded, kShift),
                       _mm256_set1_epi32((127 + Format::kMinExponent - 1) << Format::kMantissa));
  const __m256i magic = _mm256_set1_epi32(kMagic);
  const __m256i subnormal =
      _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(size, _mm256_castsi256_ps(magic))), magic);
  const __m256i is_small =
      _mm256_cmpgt_epi32(_mm256_set1_epi32((127 + Format::kMinExponent) << 23), size_bits);
  __m256i code = _mm256_blendv_epi8(normal, subnormal, is_small);
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v.v, v.v, _CMP_UNORD_Q));
  code = _mm256_blendv_epi8(code, _mm256_set1_epi32(Format::kNan), is_nan);
  return _mm256_or_si256(code, sign);
}

/// The low bytes of the eight lanes, in the low half.
inline __m128i LowBytes(__m256i lanes) {
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  return _mm_packus_epi16(words, words);
}

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
