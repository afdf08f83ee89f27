// SPDX-License-Identifier: Apache-2.0
// RoPE against a float64 loop.
#include "support/checks/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "support/mismatch.h"

namespace flashinfer::test {
namespace {

int64_t RotaryDim(const RopeCase& c) { return ProblemOf(c).rotary_dim; }

/// Divides the frequency of pair i as Hugging Face's Llama 3.1 and the YaRN paper say.
double ScaledFrequency(const RopeCase& c, int64_t i) {
  const double dim = static_cast<double>(RotaryDim(c));
  const double theta = c.rope_theta;
  const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / dim);
  const double scaled = frequency / static_cast<double>(c.rope_scale);
  const double turns = 8192 * frequency / (2 * std::numbers::pi);  // within the old context
  if (c.scaling == RopeScaling::kLinear) return scaled;
  if (c.scaling == RopeScaling::kLlama31) {
    if (turns < 1) return scaled;
    if (turns > 4) return frequency;
    const double smooth = (turns - 1) / (4 - 1);
    return (1 - smooth) * scaled + smooth * frequency;
  }
  const auto pair_of = [&](double beta) {
    return dim * std::log(8192 / (beta * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(pair_of(32)), 0.0);
  const double high = std::min(std::ceil(pair_of(1)), dim - 1);
  const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return ramp * scaled + (1 - ramp) * frequency;
}

HostTensor MakeHeads(const RopeCase& c, int64_t num_heads, DType dtype) {
  const int64_t head = c.head_dim + c.head_padding;
  return {dtype,
          {c.num_tokens, num_heads, c.head_dim},
          {num_heads * head + 2 * c.head_padding, head, 1},
          c.head_padding};
}

}  // namespace

RopeInputs::RopeInputs(const RopeCase& c, std::mt19937_64& rng)
    : pos_ids(c.dtype_pos_ids, {c.num_tokens}),
      factors(DType::kF32, {RotaryDim(c) / 2}),
      cache(DType::kF32, {c.has_cache ? c.max_position + c.num_tokens + 1 : 0, RotaryDim(c)}) {
  pos_ids.FillUniform(rng, 0, static_cast<double>(c.max_position));
  if (c.num_tokens > 1) pos_ids.Set({1}, static_cast<double>(c.max_position));
  factors.FillUniform(rng, 1, 8);
  cache.FillUniform(rng, -1, 1);
  const int64_t first_len = c.num_tokens / 3;
  indptr.FillWith({0, static_cast<double>(first_len), static_cast<double>(first_len),
                   static_cast<double>(c.num_tokens)});
  offsets.FillUniform(rng, 0, static_cast<double>(c.max_position));
  for (int64_t i = 0; i < c.num_tokens; ++i) {
    const bool is_first = i < first_len;
    const double by_offset = is_first ? offsets.At({0}) + static_cast<double>(i)
                                      : offsets.At({2}) + static_cast<double>(i - first_len);
    positions.push_back(static_cast<int64_t>(c.by_offsets ? by_offset : pos_ids.At({i})));
  }
}

SinCos RopeInputs::AngleOf(const RopeCase& c, int64_t token, int64_t pair) const {
  const int64_t position = positions[static_cast<size_t>(token)];
  if (c.has_cache) {
    return {cache.At({position, RotaryDim(c) / 2 + pair}), cache.At({position, pair})};
  }
  const double factor = c.has_factors ? factors.At({pair}) : 1;
  const double angle = static_cast<double>(position) * ScaledFrequency(c, pair) / factor;
  const double magnitude =
      c.scaling == RopeScaling::kYarn ? 0.1 * std::log(static_cast<double>(c.rope_scale)) + 1 : 1.0;
  return {magnitude * std::sin(angle), magnitude * std::cos(angle)};
}

std::vector<double> RopeOracle(std::vector<double> x, int64_t num_heads, const RopeCase& c,
                               const RopeInputs& in) {
  const int64_t num_pairs = RotaryDim(c) / 2;
  for (int64_t row = 0; row < c.num_tokens * num_heads; ++row) {
    for (int64_t i = 0; i < num_pairs; ++i) {
      const auto [sin, cos] = in.AngleOf(c, row / num_heads, i);
      double& a = x[static_cast<size_t>(row * c.head_dim + (c.interleaved ? 2 * i : i))];
      double& b =
          x[static_cast<size_t>(row * c.head_dim + (c.interleaved ? 2 * i + 1 : i + num_pairs))];
      const double rotated = a * cos - b * sin;
      b = b * cos + a * sin;
      a = rotated;
    }
  }
  return x;
}

std::vector<double> Scaled(std::vector<double> x, double scale, DType dtype_out) {
  const double largest = dtype_out == DType::kE4M3 ? 448 : 57344;
  for (double& value : x) value = std::clamp(value * scale, -largest, largest);
  return x;
}

void CheckRope(const RopeCase& c, CaseRun& run) {
  std::mt19937_64 rng(11);
  const RopeInputs in(c, rng);
  const bool is_fp8 = c.dtype_out != c.dtype;
  run.ForEachCandidate<RopeOp>(ProblemOf(c), c, [&](Trial& trial) {
    DeviceCopies on(trial.device());
    HostTensor q = MakeHeads(c, c.num_qo_heads, c.dtype);
    HostTensor k = MakeHeads(c, c.num_kv_heads, c.dtype);
    q.FillNormal(rng);
    k.FillNormal(rng);
    auto expected_q = RopeOracle(q.Values(), c.num_qo_heads, c, in);
    auto expected_k = RopeOracle(k.Values(), c.num_kv_heads, c, in);
    if (is_fp8) {
      expected_q = Scaled(std::move(expected_q), 3, c.dtype_out);
      expected_k = Scaled(std::move(expected_k), 300, c.dtype_out);
    }
    HostTensor other_q = MakeHeads(c, c.num_qo_heads, c.dtype_out);
    HostTensor other_k = MakeHeads(c, c.num_kv_heads, c.dtype_out);
    const HostTensor& q_out = c.in_place ? q : other_q;
    const HostTensor& k_out = c.in_place ? k : other_k;
    const RopeOptions options{.style = c.interleaved ? RopeStyle::kInterleaved : RopeStyle::kNeox,
                              .rotary_dim = c.rotary_dim,
                              .rope_theta = c.rope_theta,
                              .rope_scale = c.rope_scale,
                              .scaling = c.scaling,
                              .frequency_factors = c.has_factors ? on(in.factors) : TensorView(),
                              .cos_sin_cache = c.has_cache ? on(in.cache) : TensorView(),
                              .quant_scale_q = 3,
                              .quant_scale_kv = 300,
                              .backend = trial.backend()};
    if (c.by_offsets) {
      ApplyRopeByOffsets(on(q), on(k), {on(in.indptr), on(in.offsets)}, on(q_out), on(k_out),
                         options);
    } else {
      ApplyRope(on(q), on(k), on(in.pos_ids), on(q_out), on(k_out), options);
    }
    on.Fetch();
    trial.Expect("q_out", Mismatch(q_out, expected_q, ToleranceOf(c.dtype_out)));
    trial.Expect("k_out", Mismatch(k_out, expected_k, ToleranceOf(c.dtype_out)));
  });
}

}  // namespace flashinfer::test
