// SPDX-License-Identifier: Apache-2.0
// The values of a narrow type, and whether one of them is the nearest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/check.h"
#include "core/convert.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

/// The value of a code; of kE2M1x2, a nibble.
inline double NarrowValue(DType dtype, uint8_t code) {
  switch (dtype) {
    case DType::kE4M3:
      return static_cast<double>(ToFloat(E4M3{code}));
    case DType::kE5M2:
      return static_cast<double>(ToFloat(E5M2{code}));
    case DType::kE2M1x2:
      return static_cast<double>(ToFloat(E2M1{code}));
    case DType::kE8M0:
      return static_cast<double>(ToFloat(E8M0{code}));
    case DType::kI8:
      return static_cast<double>(static_cast<int8_t>(code));
    default:
      throw Error(ErrorKind::kInternal, "not a narrow type");
  }
}

class NarrowValues {
 public:
  explicit NarrowValues(DType dtype) {
    const int num_codes = dtype == DType::kE2M1x2 ? 16 : 256;
    for (int code = 0; code < num_codes; ++code) {
      const double value = NarrowValue(dtype, static_cast<uint8_t>(code));
      if (std::isfinite(value)) values_.push_back(value);
    }
    std::ranges::sort(values_);
  }

  double largest() const { return values_.back(); }

  /// Whether no value is nearer to `exact` than `value`, but for the error of a product in float32.
  bool IsNearest(double value, double exact) const {
    const double saturated = std::clamp(exact, values_.front(), values_.back());
    const auto above = std::ranges::lower_bound(values_, saturated);
    double nearest = std::abs(*above - saturated);
    if (above != values_.begin()) nearest = std::min(nearest, std::abs(above[-1] - saturated));
    return std::abs(value - saturated) <= nearest + 1e-6 * std::abs(saturated);
  }

 private:
  std::vector<double> values_;
};

}  // namespace flashinfer::test
