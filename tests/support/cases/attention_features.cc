// SPDX-License-Identifier: Apache-2.0
// Attention batches by feature.
#include "support/cases/attention.h"

namespace flashinfer::test {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kF16 = DType::kF16;
constexpr DType kBF16 = DType::kBF16;
constexpr DType kE4M3 = DType::kE4M3;
constexpr DType kE5M2 = DType::kE5M2;
constexpr DType kI8 = DType::kI8;

/// Every feature of `base` alone, and those together that meet in a kernel.
std::vector<AttentionCase> WithPositionsAndSinks(const AttentionCase& base) {
  std::vector<AttentionCase> cases;
  const auto add = [&](auto change) {
    cases.push_back(base);
    change(cases.back(), cases.back().problem);
  };
  add([](AttentionCase&, AttentionProblem& p) { p.has_sinks = true; });
  add([](AttentionCase&, AttentionProblem& p) {
    p.has_sinks = true;
    p.fixed_split_size = 64;
    p.window_left = 70;
  });
  add([](AttentionCase&, AttentionProblem& p) { p.pos_encoding = PositionEncoding::kAlibi; });
  add([](AttentionCase& c, AttentionProblem& p) {
    p.pos_encoding = PositionEncoding::kAlibi;
    p.logits_soft_cap = 3;
    p.window_left = 20;
    c.gives_slopes = true;
  });
  add([](AttentionCase&, AttentionProblem& p) { p.pos_encoding = PositionEncoding::kRopeLlama; });
  add([](AttentionCase&, AttentionProblem& p) {
    p.pos_encoding = PositionEncoding::kRopeLlama;
    p.rope_scale = 2;
    p.rope_theta = 5e5;
    p.window_left = 40;
    p.has_sinks = true;
  });
  add([](AttentionCase&, AttentionProblem& p) { p.has_bias = true; });
  add([](AttentionCase& c, AttentionProblem& p) {
    p.has_bias = true;
    p.logits_soft_cap = 2;
    c.shares_bias = true;
    c.dtype_bias = kF16;
    c.is_strided = true;
  });
  add([](AttentionCase& c, AttentionProblem& p) {
    p.has_bias = true;
    p.window_left = 33;
    p.pos_encoding = PositionEncoding::kAlibi;
    c.dtype_bias = kBF16;
  });
  return cases;
}

/// Masks of prefill.
std::vector<AttentionCase> WithMasks(const AttentionCase& base) {
  std::vector<AttentionCase> cases;
  for (MaskMode mask : {MaskMode::kCustom, MaskMode::kMultiItem}) {
    for (int32_t window : {-1, 1, 70}) {
      cases.push_back(base);
      cases.back().problem.mask = mask;
      cases.back().problem.window_left = window;
      cases.back().packs_mask = window != 1;
      cases.push_back(cases.back());
      cases.back().packs_mask = window == 1;
      cases.back().problem.has_bias = window == 70;
      cases.back().problem.fixed_split_size = 64;
      cases.back().problem.logits_soft_cap = 2;
    }
  }
  return cases;
}

/// What a cache, queries and outputs may be stored as.
std::vector<AttentionCase> WithDTypes(const AttentionCase& base) {
  std::vector<AttentionCase> cases;
  const auto add = [&](DType q, DType kv, DType out) {
    cases.push_back(base);
    AttentionCase& c = cases.back();
    c.problem.dtype_q = q;
    c.problem.dtype_kv = kv;
    c.problem.dtype_out = out;
    c.scales_heads = cases.size() % 2 == 0;
    c.is_strided = cases.size() % 3 == 0;
  };
  for (DType kv : {kE4M3, kE5M2, kI8}) {
    for (DType q : {kF32, kF16, kBF16}) add(q, kv, q);
    add(kBF16, kv, kF32);
  }
  for (DType t : {kE4M3, kE5M2}) {
    add(t, t, kBF16);
    add(t, kBF16, t);
    add(kF32, t, t);
  }
  for (const auto& [q, kv, out] : {std::tuple{kBF16, kBF16, kF16}, {kF16, kF32, kBF16}}) {
    add(q, kv, out);
    cases.back().scales_heads = true;
  }
  return cases;
}

void Append(std::vector<AttentionCase>& to, const std::vector<AttentionCase>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::vector<AttentionCase> DecodeFeatureCases() {
  const std::vector<int32_t> kv_len{1, 0, 64, 65, 133, 200};
  const std::vector<int32_t> ones(kv_len.size(), 1);
  std::vector<AttentionCase> cases;
  for (DType t : {kF32, kF16, kBF16}) {
    Append(cases, WithPositionsAndSinks(
                      {AttentionOf(t, t, t, 4, 2, 64, 64, 16), ones, kv_len, KvLayout::kNHD}));
  }
  Append(cases, WithPositionsAndSinks({AttentionOf(kBF16, kE4M3, kF32, 6, 2, 40, 24, 16), ones,
                                       kv_len, KvLayout::kHND}));
  Append(cases, WithDTypes({AttentionOf(kF32, kF32, kF32, 4, 2, 64, 64, 16), ones, kv_len}));
  Append(cases, WithDTypes({AttentionOf(kF32, kF32, kF32, 9, 1, 72, 40, 3), ones, kv_len}));
  // Unequal dims, and pages of one token.
  Append(cases, WithDTypes({AttentionOf(kF32, kF32, kF32, 4, 4, 192, 128, 1), {1, 1}, {99, 128}}));
  return cases;
}

std::vector<AttentionCase> PrefillFeatureCases() {
  const std::vector<int32_t> q_len{1, 13, 64, 0, 70, 5, 4, 20};
  const std::vector<int32_t> kv_len{1, 17, 64, 9, 133, 0, 2, 129};
  std::vector<AttentionCase> cases;
  for (DType t : {kF32, kF16, kBF16}) {
    for (MaskMode mask : {MaskMode::kNone, MaskMode::kCausal}) {
      AttentionCase base{AttentionOf(t, t, t, 4, 2, 32, 32, 16), q_len, kv_len, KvLayout::kNHD};
      base.problem.mask = mask;
      base.is_ragged = t == kF16;
      Append(cases, WithPositionsAndSinks(base));
    }
    Append(cases, WithMasks({AttentionOf(t, t, t, 3, 1, 32, 64, 16), q_len, kv_len}));
  }
  AttentionCase base{AttentionOf(kF16, kE5M2, kF32, 4, 2, 24, 40, 16), q_len, kv_len};
  base.problem.mask = MaskMode::kCausal;
  Append(cases, WithPositionsAndSinks(base));
  Append(cases, WithMasks(base));
  base.problem = AttentionOf(kF32, kF32, kF32, 4, 2, 64, 64, 1);
  Append(cases, WithDTypes(base));
  base.problem = AttentionOf(kF32, kF32, kF32, 2, 1, 192, 128, 16);
  base.problem.mask = MaskMode::kCausal;
  base.is_ragged = true;
  Append(cases, WithDTypes(base));
  return cases;
}

}  // namespace flashinfer::test
