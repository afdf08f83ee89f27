// SPDX-License-Identifier: Apache-2.0
// Where 16-byte pieces of a tile lie in shared memory, so that columns of pieces hit all banks.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels::tile {

/// The permutation that the copy engine and wgmma know by this span: piece p of a line of kSpan
/// bytes (128, 64 or 32) lies at p ^ f(line), where f counts lines of 128 bytes. Offsets count from
/// an address aligned to 8 kSpan. Its own inverse.
template <int kSpan>
struct Swizzle {
  static_assert(kSpan == 128 || kSpan == 64 || kSpan == 32, "a swizzle spans 128, 64 or 32 bytes");
  static constexpr uint32_t kMask = kSpan - 16;  ///< bits of an offset that change

  constexpr uint32_t operator()(uint32_t offset) const { return offset ^ ((offset >> 3) & kMask); }
  constexpr uint32_t operator()(uint32_t line, uint32_t byte) const {
    return (*this)(line * kSpan + byte);
  }
};

}  // namespace flashinfer::kernels::tile
