// SPDX-License-Identifier: Apache-2.0
// Online softmax in base 2: a true -inf for "nothing seen", and exponents that stay numbers then.
#pragma once

#include "kernels/ptx/math.cuh"

namespace flashinfer::kernels::tile {

inline constexpr float kNegativeInfinity = __builtin_bit_cast(float, 0xff800000u);
inline constexpr float kLog2E = 1.4426950408889634f;

/// 2^(x - max), and 0 where x is -inf, whatever max is.
__device__ __forceinline__ float Exp2Guarded(float x, float max) {
  return x == kNegativeInfinity ? 0.0f : ptx::ex2_approx(x - max);
}

/// What a state of maximum `before` counts beside a maximum `after` >= before: 0 before the first
/// key, when both may be -inf.
__device__ __forceinline__ float RescaleFactor(float before, float after) {
  return before == after ? 1.0f : ptx::ex2_approx(before - after);
}

/// cap · tanh(x / cap).
__device__ __forceinline__ float SoftCap(float x, float cap) {
  // tanh u = 1 - 2 / (e^2u + 1), within 2^-22 of 1.
  const float e = ptx::ex2_approx(2.0f * kLog2E * __fdividef(x, cap));
  return cap * (1.0f - 2.0f * ptx::rcp_approx(e + 1.0f));
}

/// log2 of the sum of exponentials; -inf when nothing was seen.
__device__ __forceinline__ float LogSumExp2(float max, float sum) {
  return sum > 0 ? max + log2f(sum) : kNegativeInfinity;
}

}  // namespace flashinfer::kernels::tile
