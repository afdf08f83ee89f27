// SPDX-License-Identifier: Apache-2.0
// Problems of packing bits for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "ops/packbits.h"

namespace flashinfer::test {

struct PackBitsCase {
  DType dtype = DType::kBool;
  bool little = false;
  int64_t num_segments = 0;  ///< 0: all elements are one
  int64_t size = 100;        ///< elements of the longest segment
};

template <FieldsOf<PackBitsCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(little)
  FLASHINFER_NAMED(num_segments)
  FLASHINFER_NAMED(size)
}

inline PackBitsProblem ProblemOf(const PackBitsCase& c) {
  return {c.little, c.num_segments > 0, 0};
}

inline std::vector<PackBitsCase> PackBitsCases() {
  std::vector<PackBitsCase> cases;
  for (DType dtype : {DType::kBool, DType::kU8}) {
    for (bool little : {false, true}) {
      for (int64_t size : {0, 1, 7, 8, 9, 31, 32, 33, 1000, 131072, 300001}) {
        cases.push_back({.dtype = dtype, .little = little, .size = size});
      }
      for (int64_t num_segments : {1, 2, 7, 1000}) {
        cases.push_back(
            {.dtype = dtype, .little = little, .num_segments = num_segments, .size = 99});
      }
    }
  }
  return cases;
}

}  // namespace flashinfer::test
