// SPDX-License-Identifier: Apache-2.0
// The attention oracle and its inputs.
#include "support/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace flashinfer::test {
namespace {

std::vector<int32_t> Indptr(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> indptr{0};
  for (int32_t n : lengths) indptr.push_back(indptr.back() + n);
  return indptr;
}

std::vector<int32_t> PageCounts(const AttentionCase& c) {
  std::vector<int32_t> counts;
  for (int32_t n : c.kv_len) {
    counts.push_back((n + c.problem.page_size - 1) / c.problem.page_size);
  }
  return counts;
}

HostTensor Pool(const AttentionCase& c, int64_t num_pages, int64_t dim) {
  const AttentionProblem& p = c.problem;
  const bool nhd = c.layout == KvLayout::kNHD;
  const Dims shape{num_pages, nhd ? p.page_size : p.num_kv_heads,
                   nhd ? p.num_kv_heads : p.page_size, dim};
  if (!c.is_interleaved) return {p.dtype_kv, shape};
  const int64_t inner = dim + 8;
  return {p.dtype_kv, shape, {2 * shape[1] * shape[2] * inner, shape[2] * inner, inner, 1}, 8};
}

TensorView View(const std::vector<int32_t>& values) {
  return {values.data(), DType::kI32, {static_cast<int64_t>(values.size())}};
}

int64_t NumPages(const AttentionCase& c) {
  const std::vector<int32_t> counts = PageCounts(c);
  return 3 * std::accumulate(counts.begin(), counts.end(), int64_t{0}) + 2;
}

}  // namespace

AttentionInputs::AttentionInputs(const AttentionCase& c, uint64_t seed)
    : q(c.problem.dtype_q, {Indptr(c.q_len).back(), c.problem.num_qo_heads, c.problem.head_dim_qk}),
      out(c.problem.dtype_out,
          {Indptr(c.q_len).back(), c.problem.num_qo_heads, c.problem.head_dim_vo}),
      lse(DType::kF32, {Indptr(c.q_len).back(), c.problem.num_qo_heads}),
      k_pool(Pool(c, NumPages(c), c.problem.head_dim_qk)),
      v_pool(Pool(c, NumPages(c), c.problem.head_dim_vo)),
      qo_indptr(Indptr(c.q_len)),
      indptr(Indptr(PageCounts(c))),
      layout_(c.layout),
      page_size_(c.problem.page_size) {
  std::mt19937_64 rng(seed);
  q.FillNormal(rng);
  std::vector<int32_t> pool(static_cast<size_t>(NumPages(c)));
  std::iota(pool.begin(), pool.end(), 0);
  std::shuffle(pool.begin(), pool.end(), rng);
  indices.assign(pool.begin(), pool.begin() + indptr.back());
  std::normal_distribution<double> normal;
  for (size_t b = 0; b < c.kv_len.size(); ++b) {
    const int32_t n = c.kv_len[b];
    last_page_len.push_back(n == 0 ? 0 : (n - 1) % page_size_ + 1);
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

PagedKvCache AttentionInputs::cache() const { return {k_pool.view(), v_pool.view(), layout_}; }
PageTable AttentionInputs::pages() const {
  return {View(indptr), View(indices), View(last_page_len)};
}
TensorView AttentionInputs::qo_indptr_view() const { return View(qo_indptr); }

std::vector<int64_t> AttentionInputs::IndexOf(int64_t b, int64_t token, int64_t g,
                                              int64_t d) const {
  const int64_t page =
      indices[static_cast<size_t>(indptr[static_cast<size_t>(b)] + token / page_size_)];
  const int64_t slot = token % page_size_;
  if (layout_ == KvLayout::kNHD) return {page, slot, g, d};
  return {page, g, slot, d};
}

double AttentionInputs::Key(int64_t b, int64_t token, int64_t g, int64_t d) const {
  const std::vector<int64_t> i = IndexOf(b, token, g, d);
  return k_pool.At({i[0], i[1], i[2], i[3]});
}
double AttentionInputs::Value(int64_t b, int64_t token, int64_t g, int64_t d) const {
  const std::vector<int64_t> i = IndexOf(b, token, g, d);
  return v_pool.At({i[0], i[1], i[2], i[3]});
}
void AttentionInputs::SetKey(int64_t b, int64_t token, int64_t g, int64_t d, double value) {
  const std::vector<int64_t> i = IndexOf(b, token, g, d);
  k_pool.Set({i[0], i[1], i[2], i[3]}, value);
}
void AttentionInputs::SetValue(int64_t b, int64_t token, int64_t g, int64_t d, double value) {
  const std::vector<int64_t> i = IndexOf(b, token, g, d);
  v_pool.Set({i[0], i[1], i[2], i[3]}, value);
}

AttentionResult AttentionOracle(const AttentionCase& c, const AttentionInputs& in) {
  const AttentionProblem& p = c.problem;
  const double scale = p.sm_scale != 0 ? p.sm_scale : 1 / std::sqrt(p.head_dim_qk);
  AttentionResult result;
  for (size_t request = 0; request < c.q_len.size(); ++request) {
    const int64_t b = static_cast<int64_t>(request);
    const int64_t m = c.q_len[request];
    const int64_t n = c.kv_len[request];
    for (int64_t i = 0; i < m; ++i) {
      const int64_t row = in.qo_indptr[request] + i;
      for (int64_t h = 0; h < p.num_qo_heads; ++h) {
        const int64_t g = h / p.group_size();
        const int64_t visible = p.causal ? std::clamp<int64_t>(n - m + i + 1, 0, n) : n;
        const int64_t first =
            p.window_left < 0 ? 0 : std::clamp<int64_t>(n - m + i - p.window_left, 0, visible);
        std::vector<double> s(static_cast<size_t>(visible));
        double max = -std::numeric_limits<double>::infinity();
        for (int64_t j = first; j < visible; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < p.head_dim_qk; ++d)
            dot += in.q.At({row, h, d}) * in.Key(b, j, g, d);
          double score = dot * scale;
          if (p.logits_soft_cap > 0) {
            score = p.logits_soft_cap * std::tanh(score / p.logits_soft_cap);
          }
          s[static_cast<size_t>(j)] = score;
          max = std::max(max, score);
        }
        std::vector<double> o(static_cast<size_t>(p.head_dim_vo), 0.0);
        double sum = 0;
        for (int64_t j = first; j < visible; ++j) {
          const double weight = std::exp(s[static_cast<size_t>(j)] - max);
          sum += weight;
          for (int64_t d = 0; d < p.head_dim_vo; ++d) {
            o[static_cast<size_t>(d)] += weight * in.Value(b, j, g, d);
          }
        }
        for (double& x : o) x = visible == first ? 0 : x / sum;
        result.out.insert(result.out.end(), o.begin(), o.end());
        result.lse.push_back(visible == first ? max : (max + std::log(sum)) / std::log(2.0));
      }
    }
  }
  return result;
}

}  // namespace flashinfer::test
