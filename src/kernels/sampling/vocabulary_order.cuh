// SPDX-License-Identifier: Apache-2.0
// Keys of floats as integers, and the orders in which elements of rows are compared.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::sampling {

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

/// Ordered as the floats are; no NaN.
__device__ __forceinline__ int32_t OrderedKey(float x) {
  const auto bits = static_cast<int32_t>(__float_as_uint(x));
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}
__device__ __forceinline__ float FloatOfKey(int32_t key) {
  return __uint_as_float(static_cast<uint32_t>(key >= 0 ? key : key ^ 0x7fffffff));
}
inline constexpr int32_t kKeyOfMinusInfinity = static_cast<int32_t>(0x807fffffu);

/// Keys as unsigned numbers in the same order.
__device__ __forceinline__ uint32_t UnsignedKey(int32_t key) {
  return static_cast<uint32_t>(key) ^ 0x80000000u;
}
__device__ __forceinline__ int32_t SignedKey(uint32_t key) {
  return static_cast<int32_t>(key ^ 0x80000000u);
}

/// Elements are floats, and ordered as such. A key of nothing is below them all.
struct FloatOrder {
  static constexpr int32_t kNothing = kKeyOfMinusInfinity - 1;
  __device__ __forceinline__ static float ElementOf(int32_t key) {
    return key == kNothing ? -kInfinity : FloatOfKey(key);
  }
  __device__ __forceinline__ static int32_t KeyOf(float element) { return OrderedKey(element); }
  __device__ __forceinline__ static bool IsAbove(float a, float b) { return a > b; }
};

/// Elements hold the bits of their keys, so that NaN has a place: above infinity.
struct KeyOrder {
  static constexpr int32_t kNothing = kKeyOfMinusInfinity - 1;
  static constexpr int32_t kNan = 0x7fffffff;
  __device__ __forceinline__ static float ElementOf(int32_t key) {
    return __uint_as_float(static_cast<uint32_t>(key));
  }
  __device__ __forceinline__ static int32_t KeyOf(float element) {
    return static_cast<int32_t>(__float_as_uint(element));
  }
  __device__ __forceinline__ static bool IsAbove(float a, float b) { return KeyOf(a) > KeyOf(b); }
};

}  // namespace flashinfer::kernels::sampling
