// SPDX-License-Identifier: Apache-2.0
// Four bytes at a time.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
  return __byte_perm(low, high, selector);
}

inline int32_t SignedByte(uint32_t word, int i) { return static_cast<int8_t>(word >> (8 * i)); }

inline int32_t dp4a_s32(uint32_t a, uint32_t b, int32_t c) {
  for (int i = 0; i < 4; ++i) c += SignedByte(a, i) * SignedByte(b, i);
  return c;
}

}  // namespace flashinfer::kernels::ptx
