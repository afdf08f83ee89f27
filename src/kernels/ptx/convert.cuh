// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the 16-bit, 8-bit and 4-bit formats, two values at a time (of 4 bits
// eight); in software where the instruction is missing. The first value is in the low half.
#pragma once

#include "kernels/portable.h"
#include "kernels/ptx/cvt.cuh"

namespace flashinfer::kernels::ptx {

/// Bits of the nearest bf16, ties to even.
__device__ __forceinline__ uint32_t RoundToBf16Bits(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

__device__ __forceinline__ uint32_t cvt_rn_bf16x2_f32(float x, float y) {
#if FLASHINFER_ARCH >= 800
  return cvt_rn_bf16x2(x, y);
#else
  return RoundToBf16Bits(x) | (RoundToBf16Bits(y) << 16);
#endif
}

__device__ __forceinline__ Float2 cvt_f32_bf16x2(uint32_t packed) {
  return {__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u)};
}

/// One value to kMantissa mantissa bits, saturated to kMaxFields; NaN becomes kNanFields.
template <int kMantissa, int kMinExponent, uint32_t kMaxFields, uint32_t kNanFields>
__device__ __forceinline__ uint32_t RoundToFp8Bits(float x) {
  constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 + kMinExponent) << 23;
  // Adding this power of two leaves a subnormal's bits at the end of the mantissa.
  constexpr uint32_t kMagic = static_cast<uint32_t>(127 + kMinExponent - kMantissa + 23) << 23;
  constexpr int kShift = 23 - kMantissa;
  constexpr uint32_t kBias = static_cast<uint32_t>(127 + kMinExponent - 1) << kMantissa;
  const uint32_t bits = __float_as_uint(x) & 0x7fffffffu;
  const uint32_t sign = (__float_as_uint(x) >> 24) & 0x80u;
  uint32_t fields;
  if (bits < kMinNormal) {
    fields = __float_as_uint(__uint_as_float(bits) + __uint_as_float(kMagic)) - kMagic;
  } else {
    fields = ((bits + ((1u << (kShift - 1)) - 1) + ((bits >> kShift) & 1u)) >> kShift) - kBias;
  }
  if (fields > kMaxFields) fields = kMaxFields;
  if (bits > 0x7f800000u) fields = kNanFields;
  return sign | fields;
}

/// Two e4m3 in the low half of the result; saturates, NaN stays NaN.
__device__ __forceinline__ uint32_t cvt_rn_satfinite_e4m3x2_f32(float x, float y) {
#if FLASHINFER_ARCH >= 890
  return cvt_rn_satfinite_e4m3x2(x, y);
#else
  return RoundToFp8Bits<3, -6, 0x7eu, 0x7fu>(x) | (RoundToFp8Bits<3, -6, 0x7eu, 0x7fu>(y) << 8);
#endif
}

/// Two e5m2 in the low half of the result; saturates, NaN stays NaN.
__device__ __forceinline__ uint32_t cvt_rn_satfinite_e5m2x2_f32(float x, float y) {
#if FLASHINFER_ARCH >= 890
  return cvt_rn_satfinite_e5m2x2(x, y);
#else
  return RoundToFp8Bits<2, -14, 0x7bu, 0x7fu>(x) | (RoundToFp8Bits<2, -14, 0x7bu, 0x7fu>(y) << 8);
#endif
}

/// |x · factor| as 2^23 plus its e2m1 code; `half` is factor / 2. The code grows by 4 up to 2, by 2
/// from there to 4 and by 1 from there to 6, and each of these parts is rounded where those before
/// it are even: ties stay right.
__device__ __forceinline__ float RoundToE2m1Code(float x, float half) {
  const float product = fabsf(x) * half;
  const float below_two = fmaf(__saturatef(product), 4.0f, 0x1p23f);
  const float below_four = fmaf(__saturatef(product - 1.0f), 2.0f, below_two);
  return below_four + __saturatef(product - 2.0f);
}

/// Eight products x · factor, saturated; the first is in the lowest nibble. Few instructions on
/// integers, of which a clock has half as many.
__device__ __forceinline__ uint32_t RoundToE2m1Bits(const float (&x)[8], float factor) {
  uint32_t codes = 0;
  uint32_t signs = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    codes = codes * 16 + __float_as_uint(RoundToE2m1Code(x[i], factor * 0.5f));
    signs = __funnelshift_l(__float_as_uint(x[i]), signs, 4);
  }
  constexpr uint32_t kMagic = 0x4b000000u;  // 2^23: of the first two in this word, of others beyond
  return (codes - kMagic * 17) | (signs & 0x88888888u);
}

/// Eight products x · factor as e2m1, the first in the lowest nibble; saturates. `factor` is 0 or
/// more; where a product is NaN, its code is any.
__device__ __forceinline__ uint32_t cvt_rn_satfinite_e2m1x8_f32(const float (&x)[8], float factor) {
#if FLASHINFER_ARCH >= 1000 && defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
  float products[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) products[i] = x[i] * factor;
  return cvt_rn_satfinite_e2m1x8(products);
#else
  return RoundToE2m1Bits(x, factor);
#endif
}

/// Of the low nibble.
__device__ __forceinline__ float E2m1BitsToF32(uint32_t nibble) {
  // The fields, moved to where f32 has them, mean 2^-126 of the value; the subnormal included.
  const float magnitude = __uint_as_float((nibble & 0x7u) << 22) * 0x1p126f;
  return __uint_as_float(__float_as_uint(magnitude) | ((nibble & 0x8u) << 28));
}

__device__ __forceinline__ float E4m3BitsToF32(uint32_t byte) {
  // The fields, moved to where f32 has them, mean 2^-120 of the value; subnormals included.
  const float magnitude = __uint_as_float((byte & 0x7fu) << 20) * 0x1p120f;
  const uint32_t bits = (byte & 0x7fu) == 0x7fu ? 0x7fc00000u : __float_as_uint(magnitude);
  return __uint_as_float(bits | ((byte & 0x80u) << 24));
}

/// Of the low half; exact.
__device__ __forceinline__ uint32_t cvt_f16x2_e4m3x2(uint32_t packed) {
#if FLASHINFER_ARCH >= 890
  return cvt_rn_f16x2_e4m3x2(static_cast<uint16_t>(packed));
#else
  return cvt_rn_f16x2_f32(E4m3BitsToF32(packed & 0xffu), E4m3BitsToF32((packed >> 8) & 0xffu));
#endif
}

__device__ __forceinline__ Float2 cvt_f32_e4m3x2(uint32_t packed) {
#if FLASHINFER_ARCH >= 890
  return cvt_f32_f16x2(cvt_f16x2_e4m3x2(packed));
#else
  return {E4m3BitsToF32(packed & 0xffu), E4m3BitsToF32((packed >> 8) & 0xffu)};
#endif
}

/// Of the low half: e5m2 is the upper byte of an f16.
__device__ __forceinline__ uint32_t cvt_f16x2_e5m2x2(uint32_t packed) {
  return __byte_perm(packed, 0, 0x1404);
}

__device__ __forceinline__ Float2 cvt_f32_e5m2x2(uint32_t packed) {
  return cvt_f32_f16x2(cvt_f16x2_e5m2x2(packed));
}

/// Signed bytes of the low half.
__device__ __forceinline__ Float2 cvt_f32_s8x2(uint32_t packed) {
  // 2^23 + (x + 128) as a float holds the byte, with its sign bit flipped, in the mantissa.
  const uint32_t biased = packed ^ 0x8080u;
  constexpr uint32_t kMagic = 0x4b000000u;
  return {__uint_as_float(__byte_perm(biased, kMagic, 0x7440) & 0xff0000ffu) - 8388736.0f,
          __uint_as_float(__byte_perm(biased, kMagic, 0x7441) & 0xff0000ffu) - 8388736.0f};
}

/// Signed bytes of the low half; exact.
__device__ __forceinline__ uint32_t cvt_f16x2_s8x2(uint32_t packed) {
  // 1024 + (x + 128) as f16 holds the byte, with its sign bit flipped, in the mantissa.
  const uint32_t biased = __byte_perm(packed ^ 0x8080u, 0x64646464u, 0x4140);
  return sub_f16x2(biased, 0x64806480u);
}

/// Two signed bytes in the low half; rounds to nearest even, saturates, NaN becomes 0.
__device__ __forceinline__ uint32_t cvt_rni_sat_s8x2_f32(float x, float y) {
  return (cvt_rni_sat_s8_f32(x) & 0xffu) | ((cvt_rni_sat_s8_f32(y) & 0xffu) << 8);
}

}  // namespace flashinfer::kernels::ptx
