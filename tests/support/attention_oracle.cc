// SPDX-License-Identifier: Apache-2.0
// The attention oracle.
#include "support/attention_oracle.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace flashinfer::test {
namespace {

double PerHead(const HostTensor& values, int64_t head) {
  return values.view().num_elements() == 0 ? 1 : values.At({head});
}

/// The slopes of Press et al., 2022.
double AlibiSlope(int64_t num_heads, int64_t head) {
  int64_t n = 1;
  while (2 * n <= num_heads) n *= 2;
  if (head < n) return std::pow(2.0, -8.0 * static_cast<double>(head + 1) / double(n));
  return std::pow(2.0, -4.0 * static_cast<double>(2 * (head - n) + 1) / double(n));
}

/// Rotates pairs (k, k + D / 2) of a head at a position.
void Rotate(const AttentionProblem& p, int64_t position, double* x) {
  const int64_t half = p.head_dim_qk / 2;
  for (int64_t k = 0; k < half; ++k) {
    const double frequency =
        std::pow(1.0 / p.rope_theta, 2.0 * static_cast<double>(k) / p.head_dim_qk) / p.rope_scale;
    const double angle = static_cast<double>(position) * frequency;
    const double a = x[k];
    const double b = x[k + half];
    x[k] = a * std::cos(angle) - b * std::sin(angle);
    x[k + half] = b * std::cos(angle) + a * std::sin(angle);
  }
}

/// One request: its keys and values as numbers, and the formulas of AttentionProblem.
class Request {
 public:
  Request(const AttentionCase& c, const AttentionInputs& in, size_t index)
      : p_(c.problem),
        c_(c),
        in_(in),
        b_(static_cast<int64_t>(index)),
        m_(c.q_len[index]),
        n_(c.kv_len[index]),
        first_row_(in.qo_indptr[index]),
        scale_(p_.sm_scale != 0 ? p_.sm_scale : 1 / std::sqrt(p_.head_dim_qk)) {
    for (size_t r = 0; r < index; ++r) mask_begin_ += int64_t{c.q_len[r]} * c.kv_len[r];
    for (int64_t g = 0; g < p_.num_kv_heads; ++g) {
      for (int64_t j = 0; j < n_; ++j) {
        for (int64_t d = 0; d < p_.head_dim_qk; ++d) {
          k_.push_back(in.Key(b_, j, g, d) * in.k_scale * PerHead(in.k_scales, g));
        }
        if (Rotates()) Rotate(p_, j, &k_[k_.size() - static_cast<size_t>(p_.head_dim_qk)]);
        for (int64_t d = 0; d < p_.head_dim_vo; ++d) {
          v_.push_back(in.Value(b_, j, g, d) * in.v_scale * PerHead(in.v_scales, g));
        }
      }
    }
  }

  void AppendTo(AttentionResult& result) const {
    for (int64_t i = 0; i < m_; ++i) {
      for (int64_t h = 0; h < p_.num_qo_heads; ++h) Row(i, h, result);
    }
  }

 private:
  bool Rotates() const { return p_.pos_encoding == PositionEncoding::kRopeLlama; }

  bool Sees(int64_t i, int64_t h, int64_t j) const {
    const int64_t position = n_ - m_ + i;
    if (p_.window_left >= 0 && j < position - p_.window_left) return false;
    if (IsCausal(p_.mask) && j > position) return false;
    if (p_.mask == MaskMode::kCustom && in_.custom.At({mask_begin_ + i * n_ + j}) == 0) {
      return false;
    }
    if (p_.mask == MaskMode::kMultiItem) {
      const int64_t prefix = in_.prefix_len[static_cast<size_t>(b_)];
      if (position >= prefix && j >= prefix &&
          position >= j + static_cast<int64_t>(in_.token_pos.At({b_, position - prefix}))) {
        return false;
      }
    }
    return !p_.has_bias || Bias(i, h, j) != -std::numeric_limits<double>::infinity();
  }

  double Bias(int64_t i, int64_t h, int64_t j) const {
    return in_.bias.At({c_.shares_bias ? 0 : h, first_row_ + i, j});
  }

  double Score(const std::vector<double>& q, int64_t i, int64_t h, int64_t j) const {
    const double* k = &k_[static_cast<size_t>((h / p_.group_size() * n_ + j) * p_.head_dim_qk)];
    double score = 0;
    for (size_t d = 0; d < q.size(); ++d) score += q[d] * k[d];
    score *= scale_;
    if (p_.pos_encoding == PositionEncoding::kAlibi) {
      const double slope = c_.gives_slopes ? in_.slopes.At({h}) : AlibiSlope(p_.num_qo_heads, h);
      score += slope * static_cast<double>(j - i);
    }
    if (p_.logits_soft_cap > 0) {
      score = p_.logits_soft_cap * std::tanh(score / p_.logits_soft_cap);
    }
    return p_.has_bias ? score + Bias(i, h, j) : score;
  }

  void Row(int64_t i, int64_t h, AttentionResult& result) const {
    std::vector<double> q(static_cast<size_t>(p_.head_dim_qk));
    for (size_t d = 0; d < q.size(); ++d) {
      q[d] = in_.q.At({first_row_ + i, h, static_cast<int64_t>(d)}) * in_.q_scale *
             PerHead(in_.q_scales, h);
    }
    if (Rotates()) Rotate(p_, n_ - m_ + i, q.data());
    constexpr double kInf = std::numeric_limits<double>::infinity();
    std::vector<double> scores(static_cast<size_t>(n_), -kInf);
    double max = -kInf;
    for (int64_t j = 0; j < n_; ++j) {
      if (!Sees(i, h, j)) continue;
      scores[static_cast<size_t>(j)] = Score(q, i, h, j);
      max = std::max(max, scores[static_cast<size_t>(j)]);
    }
    std::vector<double> o(static_cast<size_t>(p_.head_dim_vo), 0.0);
    const bool is_empty = max == -kInf;
    const double sink = p_.has_sinks && !is_empty ? in_.sinks.At({h}) : -kInf;
    max = std::max(max, sink);
    double sum = is_empty ? 0 : std::exp(sink - max);
    for (int64_t j = 0; j < n_; ++j) {
      if (scores[static_cast<size_t>(j)] == -kInf) continue;
      const double weight = std::exp(scores[static_cast<size_t>(j)] - max);
      sum += weight;
      const double* v = &v_[static_cast<size_t>((h / p_.group_size() * n_ + j) * p_.head_dim_vo)];
      for (size_t d = 0; d < o.size(); ++d) o[d] += weight * v[d];
    }
    for (double x : o) result.out.push_back(is_empty ? 0 : x / sum);
    result.lse.push_back(is_empty ? -kInf : (max + std::log(sum)) / std::numbers::ln2);
  }

  const AttentionProblem& p_;
  const AttentionCase& c_;
  const AttentionInputs& in_;
  int64_t b_, m_, n_;
  int64_t first_row_;
  int64_t mask_begin_ = 0;
  double scale_;
  std::vector<double> k_;  // [num_kv_heads, kv_len, head_dim_qk]
  std::vector<double> v_;  // [num_kv_heads, kv_len, head_dim_vo]
};

}  // namespace

AttentionResult AttentionOracle(const AttentionCase& c, const AttentionInputs& in) {
  AttentionResult result;
  for (size_t b = 0; b < c.q_len.size(); ++b) Request(c, in, b).AppendTo(result);
  return result;
}

}  // namespace flashinfer::test
