// SPDX-License-Identifier: Apache-2.0
// Gated activation problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct ActivationCase {
  DType dtype = DType::kBF16;
  int64_t num_tokens = 5;
  int64_t size = 128;
  int64_t row_padding = 0;  ///< elements between rows of x and of out
};

template <FieldsOf<ActivationCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(num_tokens)
  FLASHINFER_NAMED(size)
  FLASHINFER_NAMED(row_padding)
}

inline std::vector<ActivationCase> ActivationCases() {
  std::vector<ActivationCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t size : {0, 1, 7, 16, 111, 1536, 8192, 8193, 28672}) {
      cases.push_back({.dtype = dtype, .size = size});
    }
    for (int64_t num_tokens : {0, 1, 989}) {
      cases.push_back({.dtype = dtype, .num_tokens = num_tokens, .size = 65});
    }
    cases.push_back({.dtype = dtype, .size = 63, .row_padding = 5});
  }
  cases.push_back({.num_tokens = 200000, .size = 3});
  return cases;
}

}  // namespace flashinfer::test
