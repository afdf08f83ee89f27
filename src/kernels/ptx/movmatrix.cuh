// SPDX-License-Identifier: Apache-2.0
// movmatrix: a warp transposes an 8 x 8 matrix of 16-bit elements in registers, SM75.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// A lane holds elements 2 (lane % 4) and 2 (lane % 4) + 1 of row lane / 4, of the result too.
__device__ __forceinline__ uint32_t movmatrix_trans(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

}  // namespace flashinfer::kernels::ptx
