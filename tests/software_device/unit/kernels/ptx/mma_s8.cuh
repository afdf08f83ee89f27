// SPDX-License-Identifier: Apache-2.0
// mma.sync of signed bytes with a sum that is not overwritten.
#pragma once

#include "kernels/ptx/mma.cuh"

namespace flashinfer::kernels::ptx {

inline void mma_m8n8k16_s8(int32_t& d0, int32_t& d1, uint32_t a, uint32_t b, int32_t c0,
                           int32_t c1) {
  int32_t d[2];
  MultiplyFragments<DType::kI8, DType::kI8, true>(d, {a}, {b}, {c0, c1});
  d0 = d[0];
  d1 = d[1];
}

inline void mma_m16n8k16_s8(int32_t (&d)[4], const uint32_t (&a)[2], uint32_t b, int32_t c) {
  MultiplyFragments<DType::kI8, DType::kI8>(d, a, {b}, {c, c, c, c});
}

inline void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                            int32_t c) {
  MultiplyFragments<DType::kI8, DType::kI8>(d, a, b, {c, c, c, c});
}

}  // namespace flashinfer::kernels::ptx
