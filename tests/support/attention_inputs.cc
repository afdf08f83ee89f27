// SPDX-License-Identifier: Apache-2.0
// Random tensors for attention cases.
#include <algorithm>
#include <cmath>
#include <limits>

#include "support/attention_oracle.h"
#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

/// Pages of the requests; ragged keys have none.
std::vector<int32_t> PageIndptr(const AttentionCase& c) {
  if (c.is_ragged) return std::vector<int32_t>(c.kv_len.size() + 1, 0);
  return Indptr(c.kv_len, c.problem.page_size);
}

int64_t NumPages(const AttentionCase& c) {
  if (c.is_ragged) return 1;
  return 3 * int64_t{PageIndptr(c).back()} + 2;
}

HostTensor Pool(const AttentionCase& c, int64_t dim) {
  const AttentionProblem& p = c.problem;
  const bool nhd = c.layout == KvLayout::kNHD;
  const int64_t slots = c.is_ragged ? Indptr(c.kv_len).back() : p.page_size;
  const Dims shape{NumPages(c), nhd ? slots : p.num_kv_heads, nhd ? p.num_kv_heads : slots, dim};
  if (!c.is_strided) return {p.dtype_kv, shape};
  const int64_t inner = dim + 8;
  return {p.dtype_kv, shape, {2 * shape[1] * shape[2] * inner, shape[2] * inner, inner, 1}, 8};
}

/// [tokens, heads, dim] of q or out.
HostTensor Rows(const AttentionCase& c, DType dtype, int64_t dim) {
  const int64_t tokens = Indptr(c.q_len).back();
  const int64_t heads = c.problem.num_qo_heads;
  if (!c.is_strided) return {dtype, {tokens, heads, dim}};
  return {dtype, {tokens, heads, dim}, {(heads + 1) * (dim + 3), dim + 3, 1}, 5};
}

HostTensor Lse(const AttentionCase& c) {
  const int64_t tokens = Indptr(c.q_len).back();
  const int64_t heads = c.problem.num_qo_heads;
  if (!c.is_strided) return {DType::kF32, {tokens, heads}};
  return {DType::kF32, {tokens, heads}, {1, tokens + 1}};
}

int64_t MaskSize(const AttentionCase& c, int64_t unit) {
  int64_t size = 0;
  for (size_t b = 0; b < c.q_len.size(); ++b) {
    size += (int64_t{c.q_len[b]} * c.kv_len[b] + unit - 1) / unit;
  }
  return size;
}

int64_t Longest(const AttentionCase& c) {
  return c.kv_len.empty() ? 0 : *std::max_element(c.kv_len.begin(), c.kv_len.end());
}

HostTensor Bias(const AttentionCase& c) {
  const AttentionProblem& p = c.problem;
  if (!p.has_bias) return {DType::kF32, {0}};
  const int64_t heads = c.shares_bias ? 1 : p.num_qo_heads;
  const int64_t tokens = Indptr(c.q_len).back();
  const int64_t keys = Longest(c);
  if (!c.is_strided) return {c.dtype_bias, {heads, tokens, keys}};
  return {c.dtype_bias, {heads, tokens, keys}, {tokens * (keys + 3), keys + 3, 1}};
}

HostTensor PerHead(bool is_there, int64_t heads) {
  return {DType::kF32, {is_there ? heads : 0}, {2}};
}

TensorView Given(const HostTensor& tensor) {
  return tensor.view().num_elements() == 0 ? TensorView() : tensor.view();
}

bool IsQuantized(DType t) { return t == DType::kE4M3 || t == DType::kE5M2 || t == DType::kI8; }

}  // namespace

AttentionInputs::AttentionInputs(const AttentionCase& c, uint64_t seed)
    : q(Rows(c, c.problem.dtype_q, c.problem.head_dim_qk)),
      out(Rows(c, c.problem.dtype_out, c.problem.head_dim_vo)),
      lse(Lse(c)),
      k_pool(Pool(c, c.problem.head_dim_qk)),
      v_pool(Pool(c, c.problem.head_dim_vo)),
      qo_indptr(Indptr(c.q_len)),
      kv_indptr(Indptr(c.kv_len)),
      indptr(PageIndptr(c)),
      custom(DType::kBool, {c.problem.mask == MaskMode::kCustom ? MaskSize(c, 1) : 0}),
      packed_custom(DType::kU8, {c.problem.mask == MaskMode::kCustom ? MaskSize(c, 8) : 0}),
      token_pos(DType::kI32, {static_cast<int64_t>(c.kv_len.size()), Longest(c)}),
      bias(Bias(c)),
      sinks(PerHead(c.problem.has_sinks, c.problem.num_qo_heads)),
      slopes(PerHead(c.gives_slopes, c.problem.num_qo_heads)),
      q_scales(PerHead(c.scales_heads, c.problem.num_qo_heads)),
      k_scales(PerHead(c.scales_heads, c.problem.num_kv_heads)),
      v_scales(PerHead(c.scales_heads, c.problem.num_kv_heads)),
      case_(c) {
  std::mt19937_64 rng(seed);
  q.FillNormal(rng);
  FillCache(c, rng);
  FillMask(c, rng);
  FillExtras(c, rng);
}

void AttentionInputs::FillCache(const AttentionCase& c, std::mt19937_64& rng) {
  indices = ShuffledPages(NumPages(c), indptr.back(), rng);
  // Integers have no fractions: the scale brings them back to the order of 1.
  std::normal_distribution<double> normal(0, c.problem.dtype_kv == DType::kI8 ? 30 : 1);
  for (size_t b = 0; b < c.kv_len.size(); ++b) {
    const int32_t n = c.kv_len[b];
    last_page_len.push_back(n == 0 ? 0 : (n - 1) % std::max(1, c.problem.page_size) + 1);
    for (int64_t t = 0; t < n; ++t) {
      for (int64_t g = 0; g < c.problem.num_kv_heads; ++g) {
        for (int64_t d = 0; d < c.problem.head_dim_qk; ++d) {
          SetKey(static_cast<int64_t>(b), t, g, d, normal(rng));
        }
        for (int64_t d = 0; d < c.problem.head_dim_vo; ++d) {
          SetValue(static_cast<int64_t>(b), t, g, d, normal(rng));
        }
      }
    }
  }
}

void AttentionInputs::FillMask(const AttentionCase& c, std::mt19937_64& rng) {
  std::uniform_int_distribution<int> below(0, 11);
  if (c.problem.mask == MaskMode::kCustom) {
    custom.Fill(0);
    packed_custom.Fill(0);
    for (size_t b = 0; b < c.q_len.size(); ++b) {
      for (int64_t i = 0; i < c.q_len[b]; ++i) {
        // Whole tiles that are seen, or not, among random ones; some rows see nothing.
        int kind = below(rng);
        const bool is_empty = kind == 0;
        for (int64_t j = 0; j < c.kv_len[b]; ++j) {
          if (j % 64 == 0) kind = below(rng);
          const bool sees = !is_empty && kind != 0 && (kind < 5 || below(rng) < 6);
          SetMask(static_cast<int64_t>(b), i, j, sees);
        }
      }
    }
  }
  if (c.problem.mask != MaskMode::kMultiItem) return;
  token_pos.Fill(1 << 30);
  for (size_t b = 0; b < c.kv_len.size(); ++b) {
    prefix_len.push_back(c.kv_len[b] / 3);
    int place = 0;
    for (int64_t j = prefix_len.back(); j < c.kv_len[b]; ++j) {
      token_pos.Set({static_cast<int64_t>(b), j - prefix_len.back()}, place);
      place = below(rng) == 0 ? 0 : place + 1;
    }
  }
}

void AttentionInputs::FillExtras(const AttentionCase& c, std::mt19937_64& rng) {
  if (c.problem.has_bias) {
    bias.FillNormal(rng);
    std::bernoulli_distribution hides(0.1);
    for (int64_t h = 0; h < bias.view().shape(0); ++h) {
      for (int64_t i = 0; i < bias.view().shape(1); ++i) {
        for (int64_t j = 0; j < bias.view().shape(2); ++j) {
          if (hides(rng)) bias.Set({h, i, j}, -std::numeric_limits<double>::infinity());
        }
      }
    }
  }
  sinks.FillNormal(rng, 2);
  slopes.FillUniform(rng, -0.2, 0.2);
  if (IsQuantized(c.problem.dtype_q)) q_scale = 0.75f;
  if (IsQuantized(c.problem.dtype_kv)) {
    const float unit = c.problem.dtype_kv == DType::kI8 ? 30.0f : 1.0f;
    k_scale = 1.5f / unit;
    v_scale = 0.5f / unit;
  }
  for (HostTensor* scales : {&q_scales, &k_scales, &v_scales}) scales->FillUniform(rng, 0.5, 1.5);
}

PagedKvCache AttentionInputs::cache() const { return {k_pool.view(), v_pool.view(), case_.layout}; }
RaggedKv AttentionInputs::ragged() const {
  return {k_pool.view()[0], v_pool.view()[0], case_.layout};
}
PageTable AttentionInputs::pages() const {
  return {ViewOf(indptr), ViewOf(indices), ViewOf(last_page_len)};
}
TensorView AttentionInputs::qo_indptr_view() const { return ViewOf(qo_indptr); }
TensorView AttentionInputs::kv_indptr_view() const { return ViewOf(kv_indptr); }

AttentionMask AttentionInputs::mask() const {
  AttentionMask mask;
  if (case_.problem.mask == MaskMode::kCustom) {
    mask.custom = case_.packs_mask ? packed_custom.view() : custom.view();
  } else if (case_.problem.mask == MaskMode::kMultiItem) {
    mask.prefix_len = ViewOf(prefix_len);
    mask.token_pos_in_items = token_pos;
  }
  return mask;
}

AttentionExtras AttentionInputs::extras() const {
  return {.q_scale = q_scale,
          .k_scale = k_scale,
          .v_scale = v_scale,
          .q_scales = Given(q_scales),
          .k_scales = Given(k_scales),
          .v_scales = Given(v_scales),
          .sinks = Given(sinks),
          .alibi_slopes = Given(slopes),
          .bias = case_.problem.has_bias ? bias.view() : TensorView()};
}

AttentionInputs::Index AttentionInputs::IndexOf(int64_t b, int64_t token) const {
  if (case_.is_ragged) return {0, kv_indptr[static_cast<size_t>(b)] + token};
  const int64_t page_size = case_.problem.page_size;
  const int64_t at = indptr[static_cast<size_t>(b)] + token / page_size;
  return {indices[static_cast<size_t>(at)], token % page_size};
}

double AttentionInputs::Key(int64_t b, int64_t token, int64_t g, int64_t d) const {
  const auto [page, slot] = IndexOf(b, token);
  return case_.layout == KvLayout::kNHD ? k_pool.At({page, slot, g, d})
                                        : k_pool.At({page, g, slot, d});
}
double AttentionInputs::Value(int64_t b, int64_t token, int64_t g, int64_t d) const {
  const auto [page, slot] = IndexOf(b, token);
  return case_.layout == KvLayout::kNHD ? v_pool.At({page, slot, g, d})
                                        : v_pool.At({page, g, slot, d});
}
void AttentionInputs::SetKey(int64_t b, int64_t token, int64_t g, int64_t d, double value) {
  const auto [page, slot] = IndexOf(b, token);
  const bool nhd = case_.layout == KvLayout::kNHD;
  k_pool.Set({page, nhd ? slot : g, nhd ? g : slot, d}, value);
}
void AttentionInputs::SetValue(int64_t b, int64_t token, int64_t g, int64_t d, double value) {
  const auto [page, slot] = IndexOf(b, token);
  const bool nhd = case_.layout == KvLayout::kNHD;
  v_pool.Set({page, nhd ? slot : g, nhd ? g : slot, d}, value);
}

void AttentionInputs::SetMask(int64_t b, int64_t i, int64_t j, bool sees) {
  int64_t begin = 0;
  int64_t begin_byte = 0;
  for (size_t r = 0; r < static_cast<size_t>(b); ++r) {
    const int64_t size = int64_t{case_.q_len[r]} * case_.kv_len[r];
    begin += size;
    begin_byte += (size + 7) / 8;
  }
  const int64_t at = i * case_.kv_len[static_cast<size_t>(b)] + j;
  custom.Set({begin + at}, sees ? 1 : 0);
  const int64_t byte = begin_byte + at / 8;
  const int bit = 1 << (at % 8);
  const int old = static_cast<int>(packed_custom.At({byte}));
  packed_custom.Set({byte}, sees ? old | bit : old & ~bit);
}

}  // namespace flashinfer::test
