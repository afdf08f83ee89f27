// SPDX-License-Identifier: Apache-2.0
// Division by a number that is known only at launch: a multiplication and a shift.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Divides 0 to 2^31 - 1 by 1 to 2^31 - 1 (Granlund and Montgomery, 1994): with
/// m = ceil(2^(31 + s) / d), s = ceil(log2 d), the error of n · m / 2^(31 + s) stays below 1 / d.
struct Divisor {
  uint32_t divisor = 1;
  uint32_t multiplier = 0x80000000u;
  uint32_t shift = 31;

  constexpr uint32_t Divide(uint32_t n) const {
    return static_cast<uint32_t>((uint64_t{n} * multiplier) >> shift);
  }
};

constexpr Divisor MakeDivisor(uint32_t divisor) {
  uint32_t log2 = 0;
  while ((uint64_t{1} << log2) < divisor) ++log2;
  const uint64_t power = uint64_t{1} << (31 + log2);
  return {divisor, static_cast<uint32_t>((power + divisor - 1) / divisor), 31 + log2};
}

}  // namespace flashinfer::kernels
