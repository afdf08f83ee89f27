// SPDX-License-Identifier: Apache-2.0
// Attention batches that decode and prefill share.
#pragma once

#include <vector>

#include "support/attention_oracle.h"

namespace flashinfer::test {

inline AttentionProblem AttentionOf(DType q, DType kv, DType out, int32_t num_qo_heads,
                                    int32_t num_kv_heads, int32_t dim_qk, int32_t dim_vo,
                                    int32_t page_size) {
  AttentionProblem p;
  p.dtype_q = q;
  p.dtype_kv = kv;
  p.dtype_out = out;
  p.num_qo_heads = num_qo_heads;
  p.num_kv_heads = num_kv_heads;
  p.head_dim_qk = dim_qk;
  p.head_dim_vo = dim_vo;
  p.page_size = page_size;
  return p;
}

/// One query token per request.
inline std::vector<AttentionCase> DecodeCases() {
  constexpr DType kF32 = DType::kF32;
  constexpr DType kF16 = DType::kF16;
  constexpr DType kBF16 = DType::kBF16;
  std::vector<AttentionCase> cases;
  const auto add = [&](const AttentionProblem& p, std::vector<int32_t> kv,
                       KvLayout layout = KvLayout::kNHD, bool interleaved = false) {
    cases.push_back({p, std::vector<int32_t>(kv.size(), 1), std::move(kv), layout, interleaved});
  };
  const std::vector<int32_t> edges{0, 1, 15, 16, 17, 63, 64, 65, 127, 129, 300};
  for (const auto& [q, kv, out] : {std::tuple{kF32, kF32, kF32},
                                   {kF16, kF16, kF16},
                                   {kBF16, kBF16, kBF16},
                                   {kF32, kF16, kF32},
                                   {kBF16, kF16, kF32},
                                   {kF16, kBF16, kBF16}}) {
    add(AttentionOf(q, kv, out, 8, 2, 64, 64, 16), edges);
    add(AttentionOf(q, kv, out, 6, 2, 128, 128, 16), edges, KvLayout::kHND, true);
  }
  for (int32_t page_size : {1, 3, 5, 7, 32, 64, 128, 256, 512}) {
    add(AttentionOf(kF32, kF16, kF32, 4, 2, 64, 64, page_size), {1, 5, 16, 17, 31, 32, 512});
    add(AttentionOf(kF32, kF16, kF32, 4, 2, 64, 64, page_size), {512, 7}, KvLayout::kHND, true);
  }
  for (int32_t ratio : {1, 2, 3, 5, 6, 7, 8, 9, 12, 16, 32, 64, 71}) {
    add(AttentionOf(kF32, kF32, kF32, 4 * ratio, 4, 64, 64, 16), {77, 3});
    add(AttentionOf(kBF16, kBF16, kBF16, ratio, 1, 128, 128, 16), {77});
  }
  for (int32_t dim : {8, 16, 24, 40, 56, 72, 80, 96, 112, 192, 256, 320, 512}) {
    add(AttentionOf(kF32, kF32, kF32, 3, 1, dim, dim, 8), {70});
    add(AttentionOf(kF32, kF16, kF32, 10, 1, dim, 128, 8), {70});
    add(AttentionOf(kF16, kF16, kF16, 3, 1, 192, dim, 8), {70});
  }
  for (DType t : {kF32, kF16, kBF16}) {
    AttentionProblem p = AttentionOf(t, t, t, 8, 2, 64, 64, 16);
    for (int32_t window : {0, 1, 50, 63, 64, 100, 1000}) {
      p.window_left = window;
      add(p, {1, 64, 65, 133, 999, 0});
    }
    p.logits_soft_cap = 2.0f;
    add(p, {1, 133, 70, 0, 999});
    p.window_left = -1;
    p.fixed_split_size = 64;
    add(p, {1, 133, 1000, 0, 999});
  }
  // Long enough to be split along the keys.
  add(AttentionOf(kF32, kF16, kF32, 9, 3, 64, 64, 16), {3000});
  add(AttentionOf(kBF16, kBF16, kBF16, 4, 1, 128, 128, 16), {5003, 10, 0, 1200});
  return cases;
}

/// Any number of query tokens per request.
inline std::vector<AttentionCase> PrefillCases() {
  constexpr DType kF32 = DType::kF32;
  constexpr DType kF16 = DType::kF16;
  constexpr DType kBF16 = DType::kBF16;
  std::vector<AttentionCase> cases;
  const auto add = [&](AttentionProblem p, const std::vector<int32_t>& q,
                       const std::vector<int32_t>& kv, KvLayout layout = KvLayout::kNHD,
                       bool interleaved = false) {
    for (bool causal : {false, true}) {
      p.causal = causal;
      cases.push_back({p, q, kv, layout, interleaved});
    }
  };
  const std::vector<int32_t> q_edges{1, 2, 13, 64, 0, 65, 5, 4, 33};
  const std::vector<int32_t> kv_edges{1, 17, 13, 64, 9, 65, 0, 2, 200};
  for (const auto& [q, kv, out] : {std::tuple{kF32, kF32, kF32},
                                   {kF16, kF16, kF16},
                                   {kBF16, kBF16, kBF16},
                                   {kF32, kF16, kF32}}) {
    add(AttentionOf(q, kv, out, 6, 2, 64, 64, 16), q_edges, kv_edges);
    add(AttentionOf(q, kv, out, 4, 4, 128, 128, 5), q_edges, kv_edges, KvLayout::kHND, true);
  }
  for (int32_t ratio : {1, 2, 3, 5, 6, 7, 8, 12, 16, 32, 64}) {
    add(AttentionOf(kF32, kF16, kF32, ratio, 1, 64, 64, 16), {1, 2, 13}, {77, 77, 77});
  }
  for (int32_t dim : {8, 24, 40, 72, 80, 96, 192, 512}) {
    add(AttentionOf(kF32, kF32, kF32, 2, 1, dim, 128, 8), {20}, {70});
    add(AttentionOf(kF32, kF16, kF32, 2, 1, 64, dim, 8), {20}, {70});
  }
  for (DType t : {kF32, kF16, kBF16}) {
    AttentionProblem p = AttentionOf(t, t, t, 6, 2, 64, 64, 16);
    for (int32_t window : {0, 1, 30, 64, 126}) {
      p.window_left = window;
      add(p, {150, 6, 1}, {301, 3, 64});
    }
    p.logits_soft_cap = 2.0f;
    add(p, {70, 6, 1}, {133, 3, 64});
    p.fixed_split_size = 64;
    add(p, {70, 6, 1}, {433, 3, 200});
    p.window_left = -1;
    add(p, {70, 2, 1}, {1433, 1000, 200});
  }
  // m > n: the first rows see nothing.
  for (int32_t m : {4, 33, 64, 130}) {
    add(AttentionOf(kBF16, kBF16, kBF16, 1, 1, 128, 128, 16), {m}, {2});
    add(AttentionOf(kF16, kF16, kF16, 8, 2, 128, 128, 16), {m, m}, {1, 0});
  }
  add(AttentionOf(kF32, kF16, kF32, 9, 3, 64, 64, 16), {37}, {1500});
  return cases;
}

}  // namespace flashinfer::test
