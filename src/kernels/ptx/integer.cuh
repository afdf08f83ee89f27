// SPDX-License-Identifier: Apache-2.0
// Four bytes at a time: permutation and dot product.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// Each nibble of `selector` picks one byte of low (0 to 3) or high (4 to 7); with its bit 3 set,
/// that byte's sign bit, eight times.
__device__ __forceinline__ uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
  return bytes;
}

/// c + the dot product of four signed bytes each.
__device__ __forceinline__ int32_t dp4a_s32(uint32_t a, uint32_t b, int32_t c) {
  int32_t sum;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

}  // namespace flashinfer::kernels::ptx
