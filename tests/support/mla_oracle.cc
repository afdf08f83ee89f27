// SPDX-License-Identifier: Apache-2.0
// The latent attention oracle and its inputs.
#include "support/mla_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/page_tables.h"

namespace flashinfer::test {
namespace {

int64_t NumTokens(const MlaCase& c) { return Indptr(c.q_len).back(); }
int64_t NumPages(const MlaCase& c) { return 3 * Indptr(c.kv_len, c.problem.page_size).back() + 2; }

HostTensor Pool(const MlaCase& c, int64_t dim, int64_t row_stride) {
  const int64_t page_size = c.problem.page_size;
  return {c.problem.dtype_kv,
          {NumPages(c), page_size, dim},
          {(page_size + 1) * row_stride, row_stride, 1},
          8};
}

/// Odd when interleaved, so that pairs of elements are not aligned.
int64_t RowStride(const MlaCase& c) {
  return c.problem.head_dim_ckv + (c.is_interleaved ? c.problem.head_dim_kpe + 7 : 0);
}

}  // namespace

MlaInputs::MlaInputs(const MlaCase& c, uint64_t seed)
    : q_nope(c.problem.dtype_q, {NumTokens(c), c.problem.num_heads, c.problem.head_dim_ckv},
             {c.problem.num_heads * (c.problem.head_dim_ckv + 8), c.problem.head_dim_ckv + 8, 1}),
      q_pe(c.problem.dtype_q, {NumTokens(c), c.problem.num_heads, c.problem.head_dim_kpe}),
      out(c.problem.dtype_out, {NumTokens(c), c.problem.num_heads, c.problem.head_dim_ckv}),
      lse(DType::kF32, {NumTokens(c), c.problem.num_heads}),
      pool(Pool(c, RowStride(c), RowStride(c))),
      kpe_pool(Pool(c, c.problem.head_dim_kpe, c.problem.head_dim_kpe)),
      scales(DType::kF32, {NumPages(c), c.problem.page_size, c.num_scale_blocks}),
      qo_indptr(Indptr(c.q_len)),
      indptr(Indptr(c.kv_len, c.problem.page_size)),
      kv_len(c.kv_len),
      case_(c) {
  std::mt19937_64 rng(seed);
  q_nope.FillNormal(rng);
  q_pe.FillNormal(rng);
  indices = ShuffledPages(NumPages(c), indptr.back(), rng);
  std::normal_distribution<double> normal(0, c.problem.dtype_kv == DType::kI8 ? 30 : 1);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  for (size_t b = 0; b < kv_len.size(); ++b) {
    for (int64_t t = 0; t < kv_len[b]; ++t) {
      for (int64_t d = 0; d < c.problem.head_dim_ckv + c.problem.head_dim_kpe; ++d) {
        SetStored(static_cast<int64_t>(b), t, d, normal(rng));
      }
      for (int64_t i = 0; i < c.num_scale_blocks; ++i) {
        scales.Set({PageOf(static_cast<int64_t>(b), t), t % c.problem.page_size, i}, uniform(rng));
      }
    }
  }
}

MlaCache MlaInputs::cache() const {
  const MlaProblem& p = case_.problem;
  const TensorView& whole = pool;
  MlaCache cache;
  cache.ckv = {
      whole.data(), p.dtype_kv, {whole.shape(0), p.page_size, p.head_dim_ckv}, whole.strides()};
  if (case_.is_interleaved) {
    cache.kpe = {whole.data_as<char>() + p.head_dim_ckv * SizeBytes(p.dtype_kv),
                 p.dtype_kv,
                 {whole.shape(0), p.page_size, p.head_dim_kpe},
                 whole.strides()};
  } else if (p.head_dim_kpe > 0) {
    cache.kpe = kpe_pool;
  }
  cache.ckv_scale = case_.ckv_scale;
  cache.kpe_scale = case_.kpe_scale;
  if (case_.num_scale_blocks > 0) cache.ckv_scales = scales;
  return cache;
}

MlaPageTable MlaInputs::pages() const { return {ViewOf(indptr), ViewOf(indices), ViewOf(kv_len)}; }
TensorView MlaInputs::qo_indptr_view() const { return ViewOf(qo_indptr); }

int64_t MlaInputs::PageOf(int64_t b, int64_t token) const {
  return indices[static_cast<size_t>(indptr[static_cast<size_t>(b)] +
                                     token / case_.problem.page_size)];
}

double MlaInputs::Stored(int64_t b, int64_t token, int64_t d) const {
  const int64_t ckv = case_.problem.head_dim_ckv;
  const int64_t slot = token % case_.problem.page_size;
  if (d < ckv || case_.is_interleaved) return pool.At({PageOf(b, token), slot, d});
  return kpe_pool.At({PageOf(b, token), slot, d - ckv});
}

void MlaInputs::SetStored(int64_t b, int64_t token, int64_t d, double value) {
  const int64_t ckv = case_.problem.head_dim_ckv;
  const int64_t slot = token % case_.problem.page_size;
  if (d < ckv || case_.is_interleaved) return pool.Set({PageOf(b, token), slot, d}, value);
  kpe_pool.Set({PageOf(b, token), slot, d - ckv}, value);
}

double MlaInputs::Key(int64_t b, int64_t token, int64_t d) const {
  const int64_t ckv = case_.problem.head_dim_ckv;
  if (d >= ckv) return Stored(b, token, d) * case_.kpe_scale;
  if (case_.num_scale_blocks == 0) return Stored(b, token, d) * case_.ckv_scale;
  const int64_t block = d / (ckv / case_.num_scale_blocks);
  return Stored(b, token, d) *
         scales.At({PageOf(b, token), token % case_.problem.page_size, block});
}

namespace {

/// Appends one row's result; `keys` are those of its request, values of it.
void AddRow(const MlaProblem& p, const std::vector<double>& q,
            const std::vector<std::vector<double>>& keys, std::pair<int64_t, int64_t> seen,
            MlaResult& result) {
  double max = -std::numeric_limits<double>::infinity();
  std::vector<double> s(keys.size());
  for (int64_t j = seen.first; j < seen.second; ++j) {
    const std::vector<double>& key = keys[static_cast<size_t>(j)];
    double score = p.sm_scale * std::inner_product(q.begin(), q.end(), key.begin(), 0.0);
    if (p.logits_soft_cap > 0) {
      score = p.logits_soft_cap * std::tanh(score / p.logits_soft_cap);
    }
    s[static_cast<size_t>(j)] = score;
    max = std::max(max, score);
  }
  std::vector<double> o(static_cast<size_t>(p.head_dim_ckv), 0.0);
  double sum = 0;
  for (int64_t j = seen.first; j < seen.second; ++j) {
    const double weight = std::exp(s[static_cast<size_t>(j)] - max);
    sum += weight;
    for (size_t d = 0; d < o.size(); ++d) o[d] += weight * keys[static_cast<size_t>(j)][d];
  }
  const bool is_empty = seen.first >= seen.second;
  for (double& x : o) x = is_empty ? 0 : x / sum;
  result.out.insert(result.out.end(), o.begin(), o.end());
  result.lse.push_back(is_empty ? max : (max + std::log(sum)) / std::log(2.0));
}

}  // namespace

MlaResult MlaOracle(const MlaCase& c, const MlaInputs& in) {
  const MlaProblem& p = c.problem;
  MlaResult result;
  for (size_t request = 0; request < c.q_len.size(); ++request) {
    const int64_t m = c.q_len[request];
    const int64_t n = c.kv_len[request];
    std::vector<std::vector<double>> keys(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) {
      auto& key = keys[static_cast<size_t>(j)];
      key.resize(static_cast<size_t>(p.head_dim_ckv) + static_cast<size_t>(p.head_dim_kpe));
      for (size_t d = 0; d < key.size(); ++d) {
        key[d] = in.Key(static_cast<int64_t>(request), j, static_cast<int64_t>(d));
      }
    }
    for (int64_t i = 0; i < m; ++i) {
      const int64_t row = in.qo_indptr[request] + i;
      const int64_t end = p.causal ? std::clamp<int64_t>(n - m + i + 1, 0, n) : n;
      const int64_t first = p.window_left < 0 ? 0 : std::max<int64_t>(0, n - m + i - p.window_left);
      for (int64_t h = 0; h < p.num_heads; ++h) {
        std::vector<double> q;
        q.reserve(static_cast<size_t>(p.head_dim_ckv) + static_cast<size_t>(p.head_dim_kpe));
        for (int64_t d = 0; d < p.head_dim_ckv; ++d) q.push_back(in.q_nope.At({row, h, d}));
        for (int64_t d = 0; d < p.head_dim_kpe; ++d) q.push_back(in.q_pe.At({row, h, d}));
        AddRow(p, q, keys, {first, end}, result);
      }
    }
  }
  return result;
}

}  // namespace flashinfer::test
