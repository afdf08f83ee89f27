// SPDX-License-Identifier: Apache-2.0
// Top-k selection problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct TopKCase {
  DType dtype = DType::kF32;
  int64_t num_rows = 3;
  int64_t num_cols = 1000;
  int64_t k = 16;
  bool sorted = false;
  bool highest_index = false;
  int64_t num_distinct = 0;  ///< values are drawn from so many: ties; 0: any
};

template <FieldsOf<TopKCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(num_cols)
  FLASHINFER_NAMED(k)
  FLASHINFER_NAMED(sorted)
  FLASHINFER_NAMED(highest_index)
  FLASHINFER_NAMED(num_distinct)
}

inline std::vector<TopKCase> TopKCases() {
  std::vector<TopKCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t num_cols : {1, 2, 257, 1000, 40000}) {
      for (int64_t k : {0, 1, 16, 256, 1000, 1001}) {
        for (int64_t num_distinct : {0, 5}) {
          for (bool sorted : {false, true}) {
            cases.push_back({.dtype = dtype,
                             .num_cols = num_cols,
                             .k = k,
                             .sorted = sorted,
                             .highest_index = (k + num_cols) % 2 == 0,
                             .num_distinct = num_distinct});
          }
        }
      }
    }
  }
  // 100 winners among zeros, and a million columns of 2 % distinct values.
  cases.push_back({.num_rows = 1, .num_cols = 8320, .k = 2048, .num_distinct = 2});
  cases.push_back({.num_rows = 1, .num_cols = 1048576, .k = 2048, .num_distinct = 20971});
  return cases;
}

}  // namespace flashinfer::test
