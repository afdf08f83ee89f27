// SPDX-License-Identifier: Apache-2.0
// Linear-layer problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/field_list.h"
#include "flashinfer/gemm.h"

namespace flashinfer::test {

struct LinearCase {
  WeightFormat format = WeightFormat::kQ4_1;
  int64_t rows = 48;
  int64_t cols = 256;
  int64_t num_tokens = 3;
  DType dtype_x = DType::kF32;
  DType dtype_out = DType::kF32;
  bool has_bias = false;
  bool has_residual = false;
  int64_t padding = 0;  ///< elements between rows of x and of out
};

template <FieldsOf<LinearCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(rows)
  FLASHINFER_NAMED(cols)
  FLASHINFER_NAMED(num_tokens)
  FLASHINFER_NAMED(dtype_x)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(has_bias)
  FLASHINFER_NAMED(has_residual)
  FLASHINFER_NAMED(padding)
}

inline std::vector<LinearCase> LinearCases() {
  std::vector<LinearCase> cases;
  for (WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kQ4_0,
        WeightFormat::kQ4_1, WeightFormat::kQ8_0, WeightFormat::kQ4_K, WeightFormat::kQ6_K,
        WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ5_K, WeightFormat::kMXFP4}) {
    for (int64_t tokens : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 33, 100, 250}) {
      cases.push_back({.format = format, .num_tokens = tokens});
    }
    for (int64_t rows : {1, 15, 17, 31, 1000}) cases.push_back({.format = format, .rows = rows});
    cases.push_back({.format = format, .cols = 1536, .num_tokens = 40});
    // Tiles of rows, columns and tokens that are not whole; on tensor cores many and few of each.
    const int64_t odd_cols = BlockSize(format) == 256 ? 768 : 288;
    cases.push_back({.format = format, .rows = 150, .cols = odd_cols, .num_tokens = 70});
    cases.push_back({.format = format, .rows = 2500, .cols = odd_cols, .num_tokens = 6});
    cases.push_back({.format = format,
                     .rows = 77,
                     .cols = odd_cols,
                     .num_tokens = 21,
                     .dtype_x = DType::kBF16,
                     .dtype_out = DType::kBF16,
                     .has_bias = true,
                     .has_residual = true,
                     .padding = 3});
    cases.push_back({.format = format, .has_bias = true, .has_residual = true, .padding = 5});
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      cases.push_back({.format = format, .dtype_x = dtype, .dtype_out = dtype});
      cases.push_back({.format = format,
                       .rows = 17,
                       .num_tokens = 9,
                       .dtype_x = dtype,
                       .dtype_out = DType::kF32,
                       .has_residual = true,
                       .padding = 3});
    }
    if (BlockSize(format) == 32) cases.push_back({.format = format, .cols = 32});
    if (BlockSize(format) == 1) {
      for (int64_t cols : {1, 2, 7, 33}) cases.push_back({.format = format, .cols = cols});
    }
  }
  return cases;
}

}  // namespace flashinfer::test
