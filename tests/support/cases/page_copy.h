// SPDX-License-Identifier: Apache-2.0
// Copies to and from a paged KV cache, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct PageCopyCase {
  DType dtype = DType::kBF16;     ///< of the rows
  DType dtype_kv = DType::kBF16;  ///< of the cache
  bool hnd = false;               ///< layout of the pages; else NHD
  int32_t page_size = 16;
  int32_t head_dim_k = 40;
  int32_t head_dim_v = 24;
  bool strided = false;  ///< gaps between rows, heads and pages
  float k_scale = 1;
  float v_scale = 1;
};

template <FieldsOf<PageCopyCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(hnd)
  FLASHINFER_NAMED(page_size)
  FLASHINFER_NAMED(head_dim_k)
  FLASHINFER_NAMED(head_dim_v)
  FLASHINFER_NAMED(strided)
  FLASHINFER_NAMED(k_scale)
  FLASHINFER_NAMED(v_scale)
}

inline std::vector<PageCopyCase> PageCopyCases() {
  std::vector<PageCopyCase> cases;
  for (const auto& [dtype, dtype_kv] : {std::pair{DType::kF32, DType::kF32},
                                        {DType::kF16, DType::kF16},
                                        {DType::kBF16, DType::kBF16},
                                        {DType::kE4M3, DType::kE4M3},
                                        {DType::kE5M2, DType::kE5M2},
                                        {DType::kI8, DType::kI8},
                                        {DType::kF32, DType::kF16},
                                        {DType::kF32, DType::kBF16},
                                        {DType::kBF16, DType::kF32},
                                        {DType::kF16, DType::kF32}}) {
    for (bool hnd : {false, true}) {
      for (int32_t page_size : {1, 3, 5, 16, 64, 256}) {
        cases.push_back({.dtype = dtype,
                         .dtype_kv = dtype_kv,
                         .hnd = hnd,
                         .page_size = page_size,
                         .strided = page_size % 2 == 0});
      }
    }
    cases.push_back({.dtype = dtype, .dtype_kv = dtype_kv, .head_dim_k = 128, .head_dim_v = 512});
  }
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType dtype_kv : {DType::kE4M3, DType::kE5M2, DType::kI8}) {
      for (float scale : {1.0f, 0.25f, 0.07f}) {
        cases.push_back({.dtype = dtype,
                         .dtype_kv = dtype_kv,
                         .hnd = scale == 1.0f,
                         .strided = scale != 1.0f,
                         .k_scale = scale,
                         .v_scale = 2 * scale});
      }
    }
  }
  return cases;
}

}  // namespace flashinfer::test
