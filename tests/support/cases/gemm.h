// SPDX-License-Identifier: Apache-2.0
// Dense matrix products for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/field_list.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct GemmCase {
  DType dtype_a = DType::kBF16;
  DType dtype_b = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int64_t batch_size = 0;  ///< 0: matrices without a batch dimension
  int64_t m = 33;
  int64_t n = 48;
  int64_t k = 64;
  bool a_is_transposed = false;  ///< stored [k, m]
  bool b_is_transposed = false;  ///< stored [k, n]
  int64_t padding = 0;           ///< elements between rows
  float a_scale = 1.0f;
  float b_scale = 1.0f;
};

template <FieldsOf<GemmCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_a)
  FLASHINFER_NAMED(dtype_b)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(batch_size)
  FLASHINFER_NAMED(m)
  FLASHINFER_NAMED(n)
  FLASHINFER_NAMED(k)
  FLASHINFER_NAMED(a_is_transposed)
  FLASHINFER_NAMED(b_is_transposed)
  FLASHINFER_NAMED(padding)
  FLASHINFER_NAMED(a_scale)
  FLASHINFER_NAMED(b_scale)
}

/// Sizes and strides of one combination of dtypes.
inline void AppendGemmCases(const GemmCase& base, std::vector<GemmCase>& cases) {
  const auto append = [&](auto&& change) {
    GemmCase c = base;
    change(c);
    cases.push_back(c);
  };
  for (int64_t m : {0, 1, 7, 64}) append([&](GemmCase& c) { c.m = m; });
  for (int64_t n : {0, 1, 17}) append([&](GemmCase& c) { c.n = n; });
  for (int64_t k : {0, 1, 3, 255, 1000}) append([&](GemmCase& c) { c.k = k; });
  for (int64_t batch_size : {0, 1, 3}) append([&](GemmCase& c) { c.batch_size = batch_size; });
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      append([&](GemmCase& c) {
        c.a_is_transposed = a;
        c.b_is_transposed = b;
        c.padding = 3;
      });
    }
  }
}

inline std::vector<GemmCase> GemmCases() {
  std::vector<GemmCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    AppendGemmCases({.dtype_a = dtype, .dtype_b = dtype, .dtype_out = dtype}, cases);
    cases.push_back({.dtype_a = dtype, .dtype_b = dtype, .dtype_out = DType::kF32, .a_scale = 2});
  }
  AppendGemmCases(
      {.dtype_a = DType::kE4M3, .dtype_b = DType::kE4M3, .a_scale = 0.25f, .b_scale = 1.75f},
      cases);
  for (DType out : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType b : {DType::kE4M3, DType::kE5M2}) {
      cases.push_back(
          {.dtype_a = DType::kE5M2, .dtype_b = b, .dtype_out = out, .k = 300, .a_scale = 0.5f});
    }
  }
  return cases;
}

}  // namespace flashinfer::test
