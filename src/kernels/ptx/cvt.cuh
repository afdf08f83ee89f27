// SPDX-License-Identifier: Apache-2.0
// cvt: conversions of two values, the first in the low half, where the architecture has them.
// convert.cuh has them for all.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

struct Float2 {
  float x;
  float y;
};

/// Rounds to nearest even, to infinity beyond the range.
__device__ __forceinline__ uint32_t cvt_rn_f16x2_f32(float x, float y) {
  uint32_t packed;
#if FLASHINFER_ARCH >= 800
  asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(packed) : "f"(x), "f"(y));
#else
  asm("{.reg .b16 lo, hi;\n"
      "cvt.rn.f16.f32 lo, %1;\n"
      "cvt.rn.f16.f32 hi, %2;\n"
      "mov.b32 %0, {lo, hi};}"
      : "=r"(packed)
      : "f"(x), "f"(y));
#endif
  return packed;
}

__device__ __forceinline__ Float2 cvt_f32_f16x2(uint32_t packed) {
  Float2 values;
  asm("{.reg .b16 lo, hi;\n"
      "mov.b32 {lo, hi}, %2;\n"
      "cvt.f32.f16 %0, lo;\n"
      "cvt.f32.f16 %1, hi;}"
      : "=f"(values.x), "=f"(values.y)
      : "r"(packed));
  return values;
}

/// SM80.
__device__ __forceinline__ uint32_t cvt_rn_bf16x2(float x, float y) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(packed) : "f"(x), "f"(y));
  return packed;
}

/// SM89, as what follows.
__device__ __forceinline__ uint16_t cvt_rn_satfinite_e4m3x2(float x, float y) {
  uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(packed) : "f"(x), "f"(y));
  return packed;
}

__device__ __forceinline__ uint16_t cvt_rn_satfinite_e5m2x2(float x, float y) {
  uint16_t packed;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %2, %1;" : "=h"(packed) : "f"(x), "f"(y));
  return packed;
}

__device__ __forceinline__ uint32_t cvt_rn_f16x2_e4m3x2(uint16_t packed) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(packed));
  return halves;
}

/// SM100 and SM120, compiled for their families: eight values, the first in the lowest nibble;
/// rounds to nearest even, saturates, NaN becomes 6.
__device__ __forceinline__ uint32_t cvt_rn_satfinite_e2m1x8(const float (&x)[8]) {
  uint32_t packed;
  asm("{.reg .b8 a, b, c, d;\n"
      "cvt.rn.satfinite.e2m1x2.f32 a, %2, %1;\n"
      "cvt.rn.satfinite.e2m1x2.f32 b, %4, %3;\n"
      "cvt.rn.satfinite.e2m1x2.f32 c, %6, %5;\n"
      "cvt.rn.satfinite.e2m1x2.f32 d, %8, %7;\n"
      "mov.b32 %0, {a, b, c, d};}"
      : "=r"(packed)
      : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]));
  return packed;
}

/// Any architecture again.
__device__ __forceinline__ uint32_t sub_f16x2(uint32_t a, uint32_t b) {
  uint32_t difference;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
}

/// Rounds to nearest even, saturates, NaN becomes 0.
__device__ __forceinline__ int32_t cvt_rni_sat_s8_f32(float x) {
  int32_t rounded;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
}

}  // namespace flashinfer::kernels::ptx
