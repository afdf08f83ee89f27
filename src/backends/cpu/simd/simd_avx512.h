// SPDX-License-Identifier: Apache-2.0
// Sixteen floats on AVX-512; included by simd.h.
#pragma once

namespace flashinfer::cpu::FLASHINFER_ISA {

struct F32 {
  static constexpr int kWidth = 16;
  __m512 v;
  static F32 Set(float x) { return {_mm512_set1_ps(x)}; }
};

inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c.
inline F32 Fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32 Max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32 Min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32 Abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
inline F32 Sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32 Round(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// a < b ? x : y, lane by lane.
inline F32 SelectLess(F32 a, F32 b, F32 x, F32 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
/// `a` where it is NaN, else `y`.
inline F32 SelectNan(F32 a, F32 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), y.v, a.v)};
}
/// The first `n` lanes of `x`, `y` in the others.
inline F32 SelectFirst(int n, F32 x, F32 y) {
  return {_mm512_mask_blend_ps(static_cast<__mmask16>((1u << n) - 1), y.v, x.v)};
}
/// Lane i of `x` where bit i is set, of `y` in the others.
inline F32 SelectBits(uint32_t bits, F32 x, F32 y) {
  return {_mm512_mask_blend_ps(static_cast<__mmask16>(bits), y.v, x.v)};
}
/// Bit i is set where lane i of `a` is not below that of `b`; clear for NaN.
inline uint32_t NotBelowBits(F32 a, F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ); }
/// Lanes 2i and 2i + 1 swapped.
inline F32 SwapPairs(F32 a) { return {_mm512_permute_ps(a.v, 0xB1)}; }
/// a * 2^floor(n).
inline F32 ScaleByPowerOfTwo(F32 a, F32 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
/// a - floor(a); 0 of infinities.
inline F32 FractionAboveFloor(F32 a) {
  return {_mm512_reduce_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
inline float Sum(F32 a) { return _mm512_reduce_add_ps(a.v); }
inline float MaxLane(F32 a) { return _mm512_reduce_max_ps(a.v); }

/// As many whole numbers of 32 bits.
struct I32 {
  __m512i v;
  static I32 Set(int32_t x) { return {_mm512_set1_epi32(x)}; }
};
inline I32 LoadI32(const void* p) { return {_mm512_loadu_si512(p)}; }
inline I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32 operator&(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32 operator|(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline I32 ShiftLeft(I32 x, int n) { return {_mm512_slli_epi32(x.v, static_cast<unsigned>(n))}; }
/// Zeros come in from the left.
inline I32 ShiftRight(I32 x, int n) { return {_mm512_srli_epi32(x.v, static_cast<unsigned>(n))}; }
inline F32 ToF32(I32 x) { return {_mm512_cvtepi32_ps(x.v)}; }
inline I32 BitsOf(F32 a) { return {_mm512_castps_si512(a.v)}; }
/// a < b ? x : y, lane by lane.
inline I32 SelectLess(F32 a, F32 b, I32 x, I32 y) {
  return {_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
/// `x` where `a` is NaN, else `y`.
inline I32 SelectNan(F32 a, I32 x, I32 y) {
  return {_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), y.v, x.v)};
}
/// The low byte of each lane, in the first F32::kWidth bytes.
inline __m128i LowBytes(I32 x) { return _mm512_cvtepi32_epi8(x.v); }

inline F32 LoadAs(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F32 FromF16(__m256i h) { return {_mm512_cvtph_ps(h)}; }
/// Each word to the upper half of a lane, by one permutation: half the time of widening and
/// shifting, which are done by the same two units (Zen 4, 2026-11).
inline F32 FromBF16(__m256i h) {
  alignas(64) static constexpr uint16_t kWords[32] = {0, 0,  0, 1,  0, 2,  0, 3,  0, 4, 0,
                                                      5, 0,  6, 0,  7, 0,  8, 0,  9, 0, 10,
                                                      0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
  return {_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, _mm512_load_si512(kWords),
                                                             _mm512_castsi256_si512(h)))};
}
inline F32 LoadAs(const F16* p) {
  return FromF16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F32 LoadAs(const BF16* p) {
  return FromBF16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F32 FromI8(__m128i bytes) { return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))}; }
inline F32 LoadAs(const int8_t* p) {
  return FromI8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1); }
inline F32 LoadPartial(const float* p, int n) { return {_mm512_maskz_loadu_ps(FirstLanes(n), p)}; }
inline F32 LoadPartial(const F16* p, int n) {
  return FromF16(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}
inline F32 LoadPartial(const BF16* p, int n) {
  return FromBF16(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}
inline F32 LoadPartial(const int8_t* p, int n) {
  return FromI8(_mm_maskz_loadu_epi8(FirstLanes(n), p));
}

inline __m256i ToF16(F32 v) {
  return _mm512_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#if defined(__AVX512BF16__)
/// The instructions that narrow to bf16 take subnormals for 0 and are else as FromFloat<BF16>().
inline bool HasSubnormal(F32 v) {
  constexpr int kSubnormal = 0x20;
  return _mm512_fpclass_ps_mask(v.v, kSubnormal) != 0;
}
#endif
inline __m256i ToBF16(F32 v) {
#if defined(__AVX512BF16__)
  if (!HasSubnormal(v)) [[likely]] {
    return std::bit_cast<__m256i>(_mm512_cvtneps_pbh(v.v));
  }
#endif
  const __m512i bits = _mm512_castps_si512(v.v);
  const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(bits, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff))), 16);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, quiet));
}
inline void StoreAs(float* p, F32 v) { _mm512_storeu_ps(p, v.v); }
inline void StoreAs(F16* p, F32 v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ToF16(v)); }
inline void StoreAs(BF16* p, F32 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ToBF16(v));
}

/// A cache line of narrowed elements.
inline __m512i LineOf(const F32 (&v)[1], float) { return _mm512_castps_si512(v[0].v); }
inline __m512i LineOf(const F32 (&v)[2], F16) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(ToF16(v[0])), ToF16(v[1]), 1);
}
inline __m512i LineOf(const F32 (&v)[2], BF16) {
#if defined(__AVX512BF16__)
  if (!HasSubnormal(v[0]) && !HasSubnormal(v[1])) [[likely]] {
    return std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(v[1].v, v[0].v));
  }
#endif
  return _mm512_inserti64x4(_mm512_castsi256_si512(ToBF16(v[0])), ToBF16(v[1]), 1);
}
/// Bytes in order, of what two packings leave of four vectors: four of each in turn.
inline __m512i LineOfPacked(__m512i packed) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, packed);
}

inline void StorePartial(float* p, F32 v, int n) { _mm512_mask_storeu_ps(p, FirstLanes(n), v.v); }
inline void StorePartial(F16* p, F32 v, int n) {
  _mm256_mask_storeu_epi16(p, FirstLanes(n), ToF16(v));
}
inline void StorePartial(BF16* p, F32 v, int n) {
  _mm256_mask_storeu_epi16(p, FirstLanes(n), ToBF16(v));
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
