// SPDX-License-Identifier: Apache-2.0
// One token after the other, one number after the other.
#include "engine/model_oracle.h"

#include <algorithm>
#include <cmath>

#include "support/gguf_blocks.h"

namespace flashinfer::test {
namespace {

using Row = std::vector<double>;

/// A matrix times a vector, plus a bias where there is one.
struct Matrix {
  Row values;
  int64_t rows, cols;
  Row bias;

  explicit Matrix(const WeightView& weight, std::span<const float> b = {})
      : values(Dequantize(weight)),
        rows(weight.rows),
        cols(weight.cols),
        bias(b.begin(), b.end()) {}

  Row operator*(const Row& x) const {
    Row out(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(i)];
      for (int64_t j = 0; j < cols; ++j) {
        sum += values[static_cast<size_t>(i * cols + j)] * x[static_cast<size_t>(j)];
      }
      out[static_cast<size_t>(i)] = sum;
    }
    return out;
  }
};

void Normalize(double* x, std::span<const float> weight, double eps) {
  double sum = 0;
  for (size_t i = 0; i < weight.size(); ++i) sum += x[i] * x[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(weight.size()) + eps);
  for (size_t i = 0; i < weight.size(); ++i) x[i] *= scale * static_cast<double>(weight[i]);
}

/// Norm (where the model has one) and rotation of every head of a row.
void PrepareHeads(Row& heads, std::span<const float> norm, int64_t position,
                  const engine::ModelConfig& config) {
  const engine::RopeConfig& rope = config.rope;
  for (size_t head = 0; head < heads.size(); head += static_cast<size_t>(config.head_dim)) {
    double* x = heads.data() + head;
    if (!norm.empty()) Normalize(x, norm, static_cast<double>(config.rms_eps));
    const int64_t half = rope.rotary_dim / 2;
    for (int64_t i = 0; i < half; ++i) {
      const bool is_neox = rope.style == RopeStyle::kNeox;
      double& a = x[is_neox ? i : 2 * i];
      double& b = x[is_neox ? i + half : 2 * i + 1];
      double angle = static_cast<double>(position) / static_cast<double>(rope.scale) *
                     std::pow(static_cast<double>(rope.theta),
                              -2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary_dim));
      if (!rope.frequency_factors.empty()) {
        angle /= static_cast<double>(rope.frequency_factors[static_cast<size_t>(i)]);
      }
      const double c = std::cos(angle), s = std::sin(angle);
      const double magnitude = static_cast<double>(rope.magnitude);
      const double a_in = a;
      a = (a_in * c - b * s) * magnitude;
      b = (a_in * s + b * c) * magnitude;
    }
  }
}

/// One query row over the keys and values up to its own.
Row Attend(const Row& q, const std::vector<Row>& keys, const std::vector<Row>& values,
           size_t num_keys, const engine::ModelConfig& config) {
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto group_size = static_cast<size_t>(config.num_qo_heads / config.num_kv_heads);
  Row out(q.size());
  for (size_t head = 0; head < q.size() / head_dim; ++head) {
    const size_t kv = head / group_size * head_dim;
    Row weights(num_keys);
    for (size_t j = 0; j < num_keys; ++j) {
      for (size_t d = 0; d < head_dim; ++d) weights[j] += q[head * head_dim + d] * keys[j][kv + d];
      weights[j] /= std::sqrt(static_cast<double>(head_dim));
    }
    const double max = *std::ranges::max_element(weights);
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - max);
    for (size_t j = 0; j < num_keys; ++j) {
      for (size_t d = 0; d < head_dim; ++d) {
        out[head * head_dim + d] += weights[j] / sum * values[j][kv + d];
      }
    }
  }
  return out;
}

void AddTo(Row& x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void RunLayer(const engine::LayerWeights& layer, const engine::ModelConfig& config,
              std::vector<Row>& hidden) {
  const Matrix q_of(layer.q, layer.q_bias), k_of(layer.k, layer.k_bias);
  const Matrix v_of(layer.v, layer.v_bias), o_of(layer.attention_output);
  const Matrix gate_of(layer.gate), up_of(layer.up), down_of(layer.down);
  const auto eps = static_cast<double>(config.rms_eps);
  std::vector<Row> keys, values;
  for (size_t t = 0; t < hidden.size(); ++t) {
    Row x = hidden[t];
    Normalize(x.data(), layer.attention_norm, eps);
    Row q = q_of * x, k = k_of * x;
    PrepareHeads(q, layer.q_norm, static_cast<int64_t>(t), config);
    PrepareHeads(k, layer.k_norm, static_cast<int64_t>(t), config);
    keys.push_back(k);
    values.push_back(v_of * x);
    AddTo(hidden[t], o_of * Attend(q, keys, values, t + 1, config));
    x = hidden[t];
    Normalize(x.data(), layer.ffn_norm, eps);
    Row gate = gate_of * x;
    const Row up = up_of * x;
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    AddTo(hidden[t], down_of * gate);
  }
}

}  // namespace

std::vector<std::vector<double>> OracleLogits(const engine::Checkpoint& model,
                                              std::span<const int32_t> tokens) {
  const engine::ModelConfig& config = model.config();
  const Row embedding = Dequantize(model.token_embedding());
  std::vector<Row> hidden;
  for (int32_t token : tokens) {
    const auto begin = embedding.begin() + token * config.hidden_size;
    hidden.emplace_back(begin, begin + config.hidden_size);
  }
  for (const engine::LayerWeights& layer : model.layers()) RunLayer(layer, config, hidden);
  const Matrix output(model.output());
  std::vector<Row> logits;
  for (Row& x : hidden) {
    Normalize(x.data(), model.output_norm(), static_cast<double>(config.rms_eps));
    logits.push_back(output * x);
  }
  return logits;
}

}  // namespace flashinfer::test
