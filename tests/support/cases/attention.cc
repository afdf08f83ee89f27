// SPDX-License-Identifier: Apache-2.0
// Attention batches by shape, page size and dtype.
#include "support/cases/attention.h"

namespace flashinfer::test {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kF16 = DType::kF16;
constexpr DType kBF16 = DType::kBF16;
constexpr KvLayout kNHD = KvLayout::kNHD;
constexpr KvLayout kHND = KvLayout::kHND;

}  // namespace

std::vector<AttentionCase> DecodeCases() {
  std::vector<AttentionCase> cases;
  const auto add = [&](const AttentionProblem& p, const std::vector<int32_t>& kv,
                       KvLayout layout = kNHD, bool is_strided = false) {
    cases.push_back({p, std::vector<int32_t>(kv.size(), 1), kv, layout, is_strided});
  };
  const std::vector<int32_t> edges{0, 1, 15, 16, 17, 63, 64, 65, 127, 129};
  for (const auto& [q, kv, out] : {std::tuple{kF32, kF32, kF32},
                                   {kF16, kF16, kF16},
                                   {kBF16, kBF16, kBF16},
                                   {kF32, kF16, kF32},
                                   {kBF16, kF16, kF32},
                                   {kF16, kBF16, kBF16}}) {
    add(AttentionOf(q, kv, out, 8, 2, 64, 64, 16), edges);
    add(AttentionOf(q, kv, out, 6, 2, 128, 128, 16), edges, kHND, true);
  }
  for (int32_t page_size : {1, 3, 5, 7, 32, 64, 128, 256, 512}) {
    add(AttentionOf(kF32, kF16, kF32, 4, 2, 32, 32, page_size), {1, 5, 16, 17, 31, 32, 300});
    add(AttentionOf(kF32, kF16, kF32, 4, 2, 32, 32, page_size), {512, 7}, kHND, true);
  }
  for (int32_t ratio : {1, 2, 3, 5, 6, 7, 8, 9, 12, 16, 32, 64, 71}) {
    add(AttentionOf(kF32, kF32, kF32, 2 * ratio, 2, 32, 32, 16), {77, 3});
    add(AttentionOf(kBF16, kBF16, kBF16, ratio, 1, 64, 64, 16), {77});
  }
  for (int32_t dim : {8, 16, 24, 40, 56, 72, 80, 96, 112, 192, 256, 320, 512}) {
    add(AttentionOf(kF32, kF32, kF32, 3, 1, dim, dim, 8), {70});
    add(AttentionOf(kF32, kF16, kF32, 10, 1, dim, 128, 8), {70});
    add(AttentionOf(kF16, kF16, kF16, 3, 1, 192, dim, 8), {70});
  }
  for (DType t : {kF32, kF16, kBF16}) {
    AttentionProblem p = AttentionOf(t, t, t, 4, 2, 64, 64, 16);
    for (int32_t window : {0, 1, 50, 63, 64, 100, 1000}) {
      p.window_left = window;
      add(p, {1, 64, 65, 133, 333, 0});
    }
    p.logits_soft_cap = 2.0f;
    add(p, {1, 133, 70, 0, 333});
    p.window_left = -1;
    p.fixed_split_size = 64;
    add(p, {1, 133, 500, 0, 333});
  }
  // Long enough to be split along the keys.
  add(AttentionOf(kF32, kF16, kF32, 9, 3, 64, 64, 16), {1500});
  add(AttentionOf(kBF16, kBF16, kBF16, 4, 1, 128, 128, 16), {2003, 10, 0, 900});
  return cases;
}

std::vector<AttentionCase> PrefillCases() {
  std::vector<AttentionCase> cases;
  const auto add = [&](AttentionProblem p, const std::vector<int32_t>& q,
                       const std::vector<int32_t>& kv, KvLayout layout = kNHD,
                       bool is_strided = false) {
    for (MaskMode mask : {MaskMode::kNone, MaskMode::kCausal}) {
      p.mask = mask;
      cases.push_back({p, q, kv, layout, is_strided});
    }
  };
  const std::vector<int32_t> q_edges{1, 2, 13, 64, 0, 65, 5, 4, 33};
  const std::vector<int32_t> kv_edges{1, 17, 13, 64, 9, 65, 0, 2, 129};
  for (const auto& [q, kv, out] : {std::tuple{kF32, kF32, kF32},
                                   {kF16, kF16, kF16},
                                   {kBF16, kBF16, kBF16},
                                   {kF32, kF16, kF32}}) {
    add(AttentionOf(q, kv, out, 6, 2, 64, 64, 16), q_edges, kv_edges);
    add(AttentionOf(q, kv, out, 2, 2, 128, 128, 5), q_edges, kv_edges, kHND, true);
    for (KvLayout layout : {kNHD, kHND}) {
      add(AttentionOf(q, kv, out, 3, 1, 64, 32, 16), q_edges, kv_edges, layout, layout == kHND);
      cases.back().is_ragged = cases[cases.size() - 2].is_ragged = true;
    }
  }
  for (int32_t page_size : {1, 3, 64, 256}) {
    add(AttentionOf(kF32, kF16, kF32, 2, 1, 32, 32, page_size), {5, 40}, {77, 300});
  }
  for (int32_t ratio : {1, 2, 3, 5, 6, 7, 8, 12, 16, 32, 64}) {
    add(AttentionOf(kF32, kF16, kF32, ratio, 1, 64, 64, 16), {1, 2, 13}, {77, 77, 77});
  }
  for (int32_t dim : {8, 24, 40, 72, 80, 96, 192, 512}) {
    add(AttentionOf(kF32, kF32, kF32, 2, 1, dim, 128, 8), {20}, {70});
    add(AttentionOf(kF32, kF16, kF32, 2, 1, 64, dim, 8), {20}, {70});
  }
  for (DType t : {kF32, kF16, kBF16}) {
    AttentionProblem p = AttentionOf(t, t, t, 4, 2, 32, 32, 16);
    for (int32_t window : {0, 1, 30, 64, 126}) {
      p.window_left = window;
      add(p, {130, 6, 1}, {261, 3, 64});
    }
    p.logits_soft_cap = 2.0f;
    add(p, {70, 6, 1}, {133, 3, 64});
    p.fixed_split_size = 64;
    add(p, {70, 6, 1}, {333, 3, 200});
    p.window_left = -1;
    add(p, {40, 2, 1}, {533, 300, 200});
  }
  // m > n: the first rows see nothing.
  for (int32_t m : {4, 33, 64, 130}) {
    add(AttentionOf(kBF16, kBF16, kBF16, 1, 1, 64, 64, 16), {m}, {2});
    add(AttentionOf(kF16, kF16, kF16, 4, 2, 64, 64, 16), {m, m}, {1, 0});
  }
  add(AttentionOf(kF32, kF16, kF32, 9, 3, 64, 64, 16), {17}, {900});
  return cases;
}

}  // namespace flashinfer::test
