// SPDX-License-Identifier: Apache-2.0
// RoPE problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "ops/rope.h"

namespace flashinfer::test {

struct RopeCase {
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
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
  RopeScaling scaling = RopeScaling::kLinear;
  bool has_factors = false;
  bool has_cache = false;   ///< cosines and sines from a table
  bool by_offsets = false;  ///< positions of three requests, one of them empty
  bool in_place = false;
};

template <FieldsOf<RopeCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
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
  FLASHINFER_NAMED(scaling)
  FLASHINFER_NAMED(has_factors)
  FLASHINFER_NAMED(has_cache)
  FLASHINFER_NAMED(by_offsets)
  FLASHINFER_NAMED(in_place)
}

inline RopeProblem ProblemOf(const RopeCase& c) {
  return {c.dtype, c.dtype_out, c.interleaved, c.rotary_dim == 0 ? c.head_dim : c.rotary_dim, 0};
}

/// What each case of one dtype and style varies.
inline std::vector<RopeCase> RopeVariations(const RopeCase& base) {
  std::vector<RopeCase> cases;
  const auto add = [&](auto change) {
    cases.push_back(base);
    change(cases.back());
  };
  for (int64_t head_dim : {2, 8, 36, 64, 80, 96, 128, 256, 512}) {
    add([&](RopeCase& c) { c.head_dim = head_dim; });
  }
  for (int64_t rotary_dim : {2, 26, 32, 62}) {
    add([&](RopeCase& c) {
      c.rotary_dim = rotary_dim;
      c.in_place = rotary_dim == 32;
      c.has_cache = rotary_dim == 26;
    });
  }
  for (RopeScaling scaling : {RopeScaling::kLinear, RopeScaling::kLlama31, RopeScaling::kYarn}) {
    add([&](RopeCase& c) {
      c.scaling = scaling;
      c.dtype_pos_ids = DType::kI64;
      c.max_position = 1 << 20;
      c.rope_theta = 5e5f;
      c.rope_scale = 8.0f;
    });
    add([&](RopeCase& c) {
      c.scaling = scaling;
      c.by_offsets = true;
      c.head_dim = 128;
      c.rope_scale = 4.0f;
    });
  }
  add([](RopeCase& c) {
    c.in_place = true;
    c.head_padding = 3;
  });
  add([](RopeCase& c) {
    c.has_factors = true;
    c.max_position = 1 << 20;
  });
  for (bool by_offsets : {false, true}) {
    add([&](RopeCase& c) {
      c.has_cache = true;
      c.by_offsets = by_offsets;
      c.max_position = 300;
      c.head_dim = 80;
    });
  }
  for (int64_t num_tokens : {0, 1, 1000}) {
    add([&](RopeCase& c) { c.num_tokens = num_tokens; });
  }
  add([](RopeCase& c) { c.num_kv_heads = 0; });
  return cases;
}

inline std::vector<RopeCase> RopeCases() {
  std::vector<RopeCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (bool interleaved : {false, true}) {
      const RopeCase base{.dtype = dtype, .dtype_out = dtype, .interleaved = interleaved};
      for (const RopeCase& c : RopeVariations(base)) cases.push_back(c);
      for (DType dtype_out : {DType::kE4M3, DType::kE5M2}) {
        cases.push_back(base);
        cases.back().dtype_out = dtype_out;
        cases.back().rotary_dim = 34;
        cases.back().head_padding = 1;
      }
    }
  }
  for (int64_t num_tokens : {70000, 200000}) {
    cases.push_back(
        {.num_tokens = num_tokens, .num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 4});
  }
  return cases;
}

}  // namespace flashinfer::test
