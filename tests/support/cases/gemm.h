// SPDX-License-Identifier: Apache-2.0
// Dense matrix products for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/field_list.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct GemmCase {
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t m = 33;
  int64_t n = 48;
  int64_t k = 64;
  bool a_is_transposed = false;  ///< stored [k, m]
  bool b_is_transposed = false;  ///< stored [k, n]
  int64_t padding = 0;           ///< elements between rows
};

template <FieldsOf<GemmCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(m)
  FLASHINFER_NAMED(n)
  FLASHINFER_NAMED(k)
  FLASHINFER_NAMED(a_is_transposed)
  FLASHINFER_NAMED(b_is_transposed)
  FLASHINFER_NAMED(padding)
}

inline std::vector<GemmCase> GemmCases() {
  std::vector<GemmCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType out : {dtype, DType::kF32}) {
      for (int64_t m : {0, 1, 7, 64}) cases.push_back({.dtype = dtype, .dtype_out = out, .m = m});
      for (int64_t n : {0, 1, 17}) cases.push_back({.dtype = dtype, .dtype_out = out, .n = n});
      for (int64_t k : {0, 1, 3, 255, 1000}) {
        cases.push_back({.dtype = dtype, .dtype_out = out, .k = k});
      }
    }
    for (bool a : {false, true}) {
      for (bool b : {false, true}) {
        cases.push_back({.dtype = dtype,
                         .dtype_out = dtype,
                         .a_is_transposed = a,
                         .b_is_transposed = b,
                         .padding = 3});
      }
    }
  }
  return cases;
}

}  // namespace flashinfer::test
