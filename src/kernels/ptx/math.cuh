// SPDX-License-Identifier: Apache-2.0
// Approximate functions of the special function unit.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// 2^x within 2 ulp; 0 for -inf, no subnormal results.
__device__ __forceinline__ float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// log2(x); -inf for 0.
__device__ __forceinline__ float lg2_approx(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Within 2^-11 of tanh(x).
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / sqrt(x) within 2^-22.9; exact powers of four stay exact.
__device__ __forceinline__ float RsqrtApprox(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The compiler takes `x` for something new: it does not compute it again instead of keeping it.
__device__ __forceinline__ void Opaque(float& x) { asm volatile("" : "+f"(x)); }

}  // namespace flashinfer::kernels::ptx
