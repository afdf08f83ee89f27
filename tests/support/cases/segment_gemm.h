// SPDX-License-Identifier: Apache-2.0
// Products of row segments for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/field_list.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct SegmentGemmCase {
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t num_segments = 5;
  int64_t num_rows = 1;  ///< of a segment on average; every third segment is empty
  int64_t num_weights = 3;
  int64_t d_in = 128;
  int64_t d_out = 192;
  bool weights_are_transposed = false;  ///< stored [num_weights, d_in, d_out]
  bool has_weight_indices = true;
};

template <FieldsOf<SegmentGemmCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(num_segments)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(num_weights)
  FLASHINFER_NAMED(d_in)
  FLASHINFER_NAMED(d_out)
  FLASHINFER_NAMED(weights_are_transposed)
  FLASHINFER_NAMED(has_weight_indices)
}

inline std::vector<SegmentGemmCase> SegmentGemmCases() {
  std::vector<SegmentGemmCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (bool transposed : {false, true}) {
      SegmentGemmCase c{.dtype = dtype, .dtype_out = dtype, .weights_are_transposed = transposed};
      cases.push_back(c);
      c.num_rows = 7;
      cases.push_back(c);
      c.dtype_out = DType::kF32;
      c.num_weights = c.num_segments = 4;
      c.has_weight_indices = false;
      cases.push_back(c);
      c.d_in = 37;
      c.d_out = 16;
      cases.push_back(c);
    }
  }
  cases.push_back({.num_segments = 0});
  cases.push_back({.num_segments = 3, .num_rows = 0});
  cases.push_back({.num_segments = 90, .num_rows = 3, .num_weights = 8, .d_in = 64, .d_out = 16});
  cases.push_back({.d_in = 0});
  cases.push_back({.d_out = 0});
  return cases;
}

}  // namespace flashinfer::test
