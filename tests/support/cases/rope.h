// SPDX-License-Identifier: Apache-2.0
// RoPE problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct RopeCase {
  DType dtype = DType::kBF16;
  DType dtype_pos_ids = DType::kI32;
  bool interleaved = false;
  int64_t num_tokens = 13;
  int64_t num_qo_heads = 6;
  int64_t num_kv_heads = 2;
  int64_t head_dim = 64;
  int64_t rotary_dim = 0;       ///< 0: head_dim
  int64_t max_position = 4096;  ///< positions are drawn below it
  int64_t head_padding = 0;     ///< elements between heads
  float rope_theta = 1e4f;
  float rope_scale = 1.0f;
  bool has_factors = false;
  bool in_place = false;
};

template <FieldsOf<RopeCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_pos_ids)
  FLASHINFER_NAMED(interleaved)
  FLASHINFER_NAMED(num_tokens)
  FLASHINFER_NAMED(num_qo_heads)
  FLASHINFER_NAMED(num_kv_heads)
  FLASHINFER_NAMED(head_dim)
  FLASHINFER_NAMED(rotary_dim)
  FLASHINFER_NAMED(max_position)
  FLASHINFER_NAMED(head_padding)
  FLASHINFER_NAMED(rope_theta)
  FLASHINFER_NAMED(rope_scale)
  FLASHINFER_NAMED(has_factors)
  FLASHINFER_NAMED(in_place)
}

inline std::vector<RopeCase> RopeCases() {
  std::vector<RopeCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (bool interleaved : {false, true}) {
      const RopeCase base{.dtype = dtype, .interleaved = interleaved};
      for (int64_t head_dim : {2, 8, 36, 64, 80, 96, 128, 256, 512}) {
        cases.push_back(base);
        cases.back().head_dim = head_dim;
      }
      for (int64_t rotary_dim : {2, 26, 32, 62}) {
        cases.push_back(base);
        cases.back().rotary_dim = rotary_dim;
        cases.back().in_place = rotary_dim == 32;
      }
      cases.push_back(base);
      cases.back().in_place = true;
      cases.back().head_padding = 3;
      cases.push_back(base);
      cases.back().dtype_pos_ids = DType::kI64;
      cases.back().max_position = 1 << 20;
      cases.back().rope_theta = 5e5f;
      cases.back().rope_scale = 8.0f;
      cases.push_back(base);
      cases.back().has_factors = true;
      cases.back().max_position = 1 << 20;
      for (int64_t num_tokens : {0, 1, 1000}) {
        cases.push_back(base);
        cases.back().num_tokens = num_tokens;
      }
      cases.push_back(base);
      cases.back().num_kv_heads = 0;
    }
  }
  cases.push_back({.num_tokens = 70000, .num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 8});
  return cases;
}

}  // namespace flashinfer::test
