// SPDX-License-Identifier: Apache-2.0
// mma.sync of signed bytes with a sum that is not overwritten; below SM80 in tiles of 8 x 8 x 16.
// Fragments are those of mma.cuh.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

/// d = A B + c for 8 rows of A and k16, SM75.
__device__ __forceinline__ void mma_m8n8k16_s8(int32_t& d0, int32_t& d1, uint32_t a, uint32_t b,
                                               int32_t c0, int32_t c1) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
      : "=r"(d0), "=r"(d1)
      : "r"(a), "r"(b), "r"(c0), "r"(c1));
}

/// d = A B + c, every element of C the same.
__device__ __forceinline__ void mma_m16n8k16_s8(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b,
                                                int32_t c) {
#if FLASHINFER_ARCH >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%7, %7, %7, %7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "r"(c));
#else
  mma_m8n8k16_s8(d[0], d[1], a[0], b, c, c);
  mma_m8n8k16_s8(d[2], d[3], a[1], b, c, c);
#endif
}

/// d = A B + c, every element of C the same.
__device__ __forceinline__ void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[2], int32_t c) {
#if FLASHINFER_ARCH >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %10, %10, %10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c));
#else
  int32_t half[4];
  mma_m8n8k16_s8(half[0], half[1], a[0], b[0], c, c);
  mma_m8n8k16_s8(half[2], half[3], a[1], b[0], c, c);
  mma_m8n8k16_s8(d[0], d[1], a[2], b[1], half[0], half[1]);
  mma_m8n8k16_s8(d[2], d[3], a[3], b[1], half[2], half[3]);
#endif
}

}  // namespace flashinfer::kernels::ptx
