// SPDX-License-Identifier: Apache-2.0
// RMSNorm problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct RmsNormCase {
  DType dtype = DType::kBF16;
  DType dtype_weight = DType::kBF16;
  int64_t num_rows = 19;
  int64_t num_heads = 0;  ///< 0: rank 2
  int64_t hidden_size = 128;
  int64_t row_padding = 0;  ///< elements between rows of x
  int64_t offset = 0;       ///< elements before the first: odd ones misalign
  bool in_place = false;
};

template <FieldsOf<RmsNormCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_weight)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(num_heads)
  FLASHINFER_NAMED(hidden_size)
  FLASHINFER_NAMED(row_padding)
  FLASHINFER_NAMED(offset)
  FLASHINFER_NAMED(in_place)
}

inline std::vector<RmsNormCase> RmsNormCases() {
  constexpr DType kF32 = DType::kF32;
  constexpr DType kF16 = DType::kF16;
  constexpr DType kBF16 = DType::kBF16;
  std::vector<RmsNormCase> cases;
  for (DType dtype : {kF32, kF16, kBF16}) {
    for (DType weight : {dtype, kF32}) {
      for (int64_t hidden : {1, 7, 111, 128, 500, 576, 3420, 3584, 8192, 16384, 32768}) {
        cases.push_back({.dtype = dtype, .dtype_weight = weight, .hidden_size = hidden});
      }
    }
    for (int64_t rows : {0, 1, 989}) {
      cases.push_back(
          {.dtype = dtype, .dtype_weight = dtype, .num_rows = rows, .hidden_size = 111});
    }
    cases.push_back({.dtype = dtype, .dtype_weight = dtype, .num_heads = 9, .hidden_size = 64});
    cases.push_back({.dtype = dtype,
                     .dtype_weight = dtype,
                     .num_heads = 3,
                     .hidden_size = 96,
                     .row_padding = 13,
                     .offset = 1});
    cases.push_back(
        {.dtype = dtype, .dtype_weight = kF32, .hidden_size = 500, .row_padding = 1, .offset = 1});
    cases.push_back({.dtype = dtype,
                     .dtype_weight = dtype,
                     .hidden_size = 576,
                     .row_padding = 64,
                     .in_place = true});
  }
  for (int64_t rows : {65537, 200000}) {
    cases.push_back({.dtype = kF16, .dtype_weight = kF16, .num_rows = rows, .hidden_size = 7});
  }
  return cases;
}

}  // namespace flashinfer::test
