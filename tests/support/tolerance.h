// SPDX-License-Identifier: Apache-2.0
// How far from the float64 oracle a result may be: one table for every test.
#pragma once

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>

#include "flashinfer/tensor.h"

namespace flashinfer::test {

/// |actual - expected| <= absolute + relative · |expected|.
struct Tolerance {
  double absolute;
  double relative;
};

/// For outputs of order 1 from inputs N(0, 1). The 16-bit and 8-bit rows are about four units in
/// the last place (2^-9 for bf16, 2^-11 for f16); sums in float32 over `num_terms` terms add an
/// error of 2^-24 · sqrt(num_terms), which only f32 outputs see.
inline Tolerance ToleranceOf(DType dtype, int64_t num_terms = 1) {
  switch (dtype) {
    case DType::kF16:
      return {2e-3, 2e-3};
    case DType::kBF16:
      return {1.6e-2, 1.6e-2};
    case DType::kE4M3:
      return {6.3e-2, 6.3e-2};
    case DType::kE5M2:
      return {1.25e-1, 1.25e-1};
    default: {
      const double error = 2e-6 + 6e-8 * 4 * std::sqrt(static_cast<double>(num_terms));
      return {error, error};
    }
  }
}

/// For LSE, in base-2 logarithms.
inline Tolerance LseTolerance() { return {2e-3, 1e-5}; }

/// Equal infinities are near; NaN is near nothing.
inline bool Near(double actual, double expected, Tolerance tolerance) {
  if (actual == expected) return true;
  if (std::isinf(expected)) return false;  // else anything is within an infinite distance
  return std::abs(actual - expected) <=
         tolerance.absolute + tolerance.relative * std::abs(expected);
}

}  // namespace flashinfer::test
