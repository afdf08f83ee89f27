// SPDX-License-Identifier: Apache-2.0
// Eight floats on AVX2 with FMA and F16C; included by simd.h.
#pragma once

namespace flashinfer::cpu::FLASHINFER_ISA {

struct F32 {
  static constexpr int kWidth = 8;
  __m256 v;
  static F32 Set(float x) { return {_mm256_set1_ps(x)}; }
};

inline F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
/// a * b + c.
inline F32 Fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline F32 Max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
inline F32 Min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
inline F32 Abs(F32 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
inline F32 Sqrt(F32 a) { return {_mm256_sqrt_ps(a.v)}; }
inline F32 Round(F32 a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// a < b ? x : y, lane by lane.
inline F32 SelectLess(F32 a, F32 b, F32 x, F32 y) {
  return {_mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
/// `a` where it is NaN, else `y`.
inline F32 SelectNan(F32 a, F32 y) {
  return {_mm256_blendv_ps(y.v, a.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
}
inline __m256i FirstLanes(int n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
}
/// The first `n` lanes of `x`, `y` in the others.
inline F32 SelectFirst(int n, F32 x, F32 y) {
  return {_mm256_blendv_ps(y.v, x.v, _mm256_castsi256_ps(FirstLanes(n)))};
}
/// Lane i of `x` where bit i is set, of `y` in the others.
inline F32 SelectBits(uint32_t bits, F32 x, F32 y) {
  const __m256i lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lanes);
  return {_mm256_blendv_ps(y.v, x.v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lanes)))};
}
/// Bit i is set where lane i of `a` is not below that of `b`; clear for NaN.
inline uint32_t NotBelowBits(F32 a, F32 b) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)));
}
/// Lanes 2i and 2i + 1 swapped.
inline F32 SwapPairs(F32 a) { return {_mm256_permute_ps(a.v, 0xB1)}; }
/// a * 2^n for whole n in -127 … 128.
inline F32 ScaleByPowerOfTwo(F32 a, F32 n) {
  // Two halves, so that 2^128 overflows to infinity and neither factor does.
  const __m256i whole = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
  return {
      _mm256_mul_ps(_mm256_mul_ps(a.v, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second))};
}
inline float Sum(F32 a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float MaxLane(F32 a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/// As many whole numbers of 32 bits.
struct I32 {
  __m256i v;
  static I32 Set(int32_t x) { return {_mm256_set1_epi32(x)}; }
};
inline I32 LoadI32(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
inline I32 operator+(I32 a, I32 b) { return {_mm256_add_epi32(a.v, b.v)}; }
inline I32 operator&(I32 a, I32 b) { return {_mm256_and_si256(a.v, b.v)}; }
inline I32 operator|(I32 a, I32 b) { return {_mm256_or_si256(a.v, b.v)}; }
inline I32 ShiftLeft(I32 x, int n) { return {_mm256_slli_epi32(x.v, n)}; }
/// Zeros come in from the left.
inline I32 ShiftRight(I32 x, int n) { return {_mm256_srli_epi32(x.v, n)}; }
inline F32 ToF32(I32 x) { return {_mm256_cvtepi32_ps(x.v)}; }
inline I32 BitsOf(F32 a) { return {_mm256_castps_si256(a.v)}; }
/// a < b ? x : y, lane by lane.
inline I32 SelectLess(F32 a, F32 b, I32 x, I32 y) {
  const __m256i is_less = _mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ));
  return {_mm256_blendv_epi8(y.v, x.v, is_less)};
}
/// `x` where `a` is NaN, else `y`.
inline I32 SelectNan(F32 a, I32 x, I32 y) {
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q));
  return {_mm256_blendv_epi8(y.v, x.v, is_nan)};
}
/// The low byte of each lane, in the first F32::kWidth bytes.
inline __m128i LowBytes(I32 x) {
  const __m256i bytes = _mm256_and_si256(x.v, _mm256_set1_epi32(0xff));
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  return _mm_packus_epi16(words, words);
}

inline F32 LoadAs(const float* p) { return {_mm256_loadu_ps(p)}; }
inline F32 LoadAs(const F16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline F32 LoadAs(const BF16* p) {
  const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16))};
}
inline F32 LoadAs(const int8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
}
inline F32 LoadPartial(const int8_t* p, int n) {
  int8_t lanes[F32::kWidth] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return LoadAs(lanes);
}
inline F32 LoadPartial(const float* p, int n) { return {_mm256_maskload_ps(p, FirstLanes(n))}; }
template <class T>
inline F32 LoadPartial(const T* p, int n) {
  T lanes[F32::kWidth] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return LoadAs(lanes);
}

inline void StoreAs(float* p, F32 v) { _mm256_storeu_ps(p, v.v); }
inline void StoreAs(F16* p, F32 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void StoreAs(BF16* p, F32 v) {
  const __m256i bits = _mm256_castps_si256(v.v);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i lsb = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(lsb, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v.v, v.v, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, quiet, is_nan);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
inline void StorePartial(float* p, F32 v, int n) { _mm256_maskstore_ps(p, FirstLanes(n), v.v); }
template <class T>
inline void StorePartial(T* p, F32 v, int n) {
  T lanes[F32::kWidth];
  StoreAs(lanes, v);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
