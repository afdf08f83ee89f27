// SPDX-License-Identifier: Apache-2.0
// movmatrix: an 8 x 8 matrix of 16-bit elements is transposed.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::ptx {

inline uint32_t movmatrix_trans(uint32_t x) {
  const uint32_t lane = software_device::Lane();
  return software_device::Together(~0u, software_device::Operation::kMovmatrix, x, [&](auto part) {
    uint32_t pair = 0;
    for (uint32_t j = 0; j < 2; ++j) {
      const uint32_t row = 2 * (lane % 4) + j, column = lane / 4;
      const uint32_t half = part(row * 4 + column / 2) >> (16 * (column % 2)) & 0xffff;
      pair |= half << (16 * j);
    }
    return pair;
  });
}

}  // namespace flashinfer::kernels::ptx
