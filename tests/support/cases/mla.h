// SPDX-License-Identifier: Apache-2.0
// Latent attention batches.
#pragma once

#include <cmath>
#include <vector>

#include "support/mla_oracle.h"

namespace flashinfer::test {

inline MlaProblem MlaOf(DType q, DType kv, DType out, int32_t num_heads, int32_t dim_ckv,
                        int32_t dim_kpe, int32_t page_size) {
  MlaProblem p;
  p.dtype_q = q;
  p.dtype_kv = kv;
  p.dtype_out = out;
  p.num_heads = num_heads;
  p.head_dim_ckv = dim_ckv;
  p.head_dim_kpe = dim_kpe;
  p.page_size = page_size;
  p.sm_scale = 1 / std::sqrt(static_cast<float>(dim_ckv + dim_kpe));
  return p;
}

/// A batch of many short requests, and of one that is longer: lengths about the edges of tiles.
inline const std::vector<int32_t> kManyKvLens{0,  1,  15, 16, 17, 31, 32, 33, 47, 48,
                                              49, 63, 64, 65, 5,  80, 96, 97, 2,  430};

/// Many requests of few heads, and batches of many rows.
template <class Add>
void AddLargeMlaCases(const Add& add) {
  for (DType t : {DType::kF16, DType::kBF16}) {
    const std::vector<int32_t> one_each(kManyKvLens.size(), 1);
    add(MlaOf(t, t, t, 16, 512, 64, 16), one_each, kManyKvLens);
    add(MlaOf(t, t, DType::kF32, 13, 96, 24, 3), one_each, kManyKvLens);
    add(MlaOf(t, t, t, 128, 512, 64, 64), {1, 2, 2}, {70, 5, 130}, true);
    MlaProblem many_rows = MlaOf(t, t, DType::kF32, 16, 64, 16, 16);
    add(many_rows, {40, 1, 5}, {150, 3, 133});
    many_rows.window_left = 50;
    many_rows.logits_soft_cap = 2.0f;
    add(many_rows, {40, 1, 5}, {150, 3, 133});
  }
}

/// Caches of 8 bits of the sizes that models have: many requests of few heads, and many heads.
inline void AddWideNarrowMlaCases(std::vector<MlaCase>& cases) {
  for (DType kv : {DType::kE4M3, DType::kE5M2, DType::kI8}) {
    const bool is_integer = kv == DType::kI8;
    MlaCase c;
    c.problem = MlaOf(DType::kBF16, kv, DType::kBF16, 16, 512, 64, 16);
    c.q_len.assign(kManyKvLens.size(), 1);
    c.kv_len = kManyKvLens;
    c.ckv_scale = is_integer ? 0.033f : 1.7f;
    c.kpe_scale = is_integer ? 0.025f : 0.3f;
    cases.push_back(c);
    MlaCase heads = c;
    heads.problem.num_heads = 128;
    heads.q_len = {1, 2, 2};
    heads.kv_len = {66, 5, 97};
    cases.push_back(heads);
    if (is_integer) continue;
    for (MlaCase* narrow : {&c, &heads}) {
      narrow->problem.head_dim_ckv = 96;  // rows of 8 bytes' alignment
      narrow->problem.head_dim_kpe = 24;
      cases.push_back(*narrow);
      narrow->ckv_scale = 1;
      narrow->num_scale_blocks = 3;
      cases.push_back(*narrow);
    }
  }
}

/// Caches of 8 bits, with a scale or with one a block.
inline void AddNarrowMlaCases(std::vector<MlaCase>& cases) {
  for (DType kv : {DType::kE4M3, DType::kE5M2, DType::kI8}) {
    for (DType q : {DType::kBF16, DType::kF16}) {
      const bool is_integer = kv == DType::kI8;
      MlaCase c;
      c.problem = MlaOf(q, kv, DType::kF32, 9, 128, 24, 16);
      c.problem.causal = q == DType::kBF16;
      c.q_len = {1, 5};
      c.kv_len = {131, 66};
      c.ckv_scale = is_integer ? 0.033f : 1.7f;
      c.kpe_scale = is_integer ? 0.025f : 0.3f;
      cases.push_back(c);
      c.ckv_scale = 1;
      c.num_scale_blocks = 4;
      if (!is_integer) cases.push_back(c);
      c.num_scale_blocks = 0;
      c.problem.head_dim_kpe = 0;
      c.kpe_scale = 1;
      c.ckv_scale = is_integer ? 0.033f : 0.25f;
      cases.push_back(c);
    }
  }
}

inline std::vector<MlaCase> MlaCases() {
  constexpr DType kF32 = DType::kF32;
  constexpr DType kF16 = DType::kF16;
  constexpr DType kBF16 = DType::kBF16;
  std::vector<MlaCase> cases;
  const auto add = [&](MlaProblem p, const std::vector<int32_t>& q, const std::vector<int32_t>& kv,
                       bool interleaved = false) {
    for (bool causal : {false, true}) {
      p.causal = causal;
      MlaCase c;
      c.problem = p;
      c.q_len = q;
      c.kv_len = kv;
      c.is_interleaved = interleaved;
      cases.push_back(c);
    }
  };
  const std::vector<int32_t> ones{1, 1, 1, 1, 1, 1, 1};
  const std::vector<int32_t> edges{0, 1, 17, 63, 64, 65, 129};
  for (const auto& [q, kv, out] : {std::tuple{kF32, kF32, kF32},
                                   {kF16, kF16, kF16},
                                   {kBF16, kBF16, kBF16},
                                   {kF32, kF16, kF32},
                                   {kBF16, kBF16, kF32},
                                   {kF16, kBF16, kBF16}}) {
    add(MlaOf(q, kv, out, 16, 512, 64, 16), ones, edges);
    add(MlaOf(q, kv, out, 3, 64, 16, 16), {1, 2, 13, 64, 0, 65, 5, 4}, {1, 17, 13, 64, 9, 65, 0, 2},
        true);
  }
  add(MlaOf(kBF16, kBF16, kBF16, 128, 512, 64, 64), {1, 2}, {70, 5}, true);
  for (int32_t page_size : {1, 3, 5, 7, 32, 128, 256, 512}) {
    add(MlaOf(kF32, kF16, kF32, 4, 64, 32, page_size), {1, 1, 2, 1}, {5, 16, 31, 512});
  }
  add(MlaOf(kF16, kF16, kF16, 8, 512, 64, 1), {1, 1, 1}, {1, 31, 130});
  for (int32_t heads : {1, 2, 5, 8, 15, 17, 31, 63, 64, 65, 127, 130}) {
    add(MlaOf(kBF16, kBF16, kF32, heads, 32, 8, 16), {2}, {77});
    add(MlaOf(kF32, kF32, kF32, heads, 40, 8, 16), {3}, {66});
  }
  for (int32_t dim : {8, 24, 48, 72, 104, 256, 320, 512}) {
    for (int32_t dim_kpe : {0, 8, 40, 128}) {
      add(MlaOf(kBF16, kBF16, kBF16, 5, dim, dim_kpe, 8), {1}, {67}, dim_kpe > 0);
      add(MlaOf(kF32, kF16, kF32, 5, dim, dim_kpe, 8), {2}, {35});
    }
  }
  for (DType t : {kF32, kBF16}) {
    MlaProblem p = MlaOf(t, t, t, 6, 64, 16, 16);
    for (int32_t window : {0, 1, 50, 64, 100}) {
      p.window_left = window;
      add(p, {1, 6, 40}, {133, 3, 150});
    }
    p.logits_soft_cap = 2.0f;
    add(p, {1, 70}, {133, 100});
    p.fixed_split_size = 64;
    add(p, {1, 70}, {433, 200});
  }
  // Long enough to be split along the keys; more queries than keys.
  add(MlaOf(kBF16, kBF16, kBF16, 16, 64, 16, 16), {1, 1, 2}, {3000, 10, 900});
  add(MlaOf(kBF16, kBF16, kBF16, 16, 64, 16, 16), {1, 1, 1}, {3000, 10, 900});
  add(MlaOf(kBF16, kBF16, kBF16, 2, 64, 16, 16), {130, 3}, {2, 0});
  AddLargeMlaCases(add);
  AddNarrowMlaCases(cases);
  AddWideNarrowMlaCases(cases);
  return cases;
}

}  // namespace flashinfer::test
