// SPDX-License-Identifier: Apache-2.0
// Frequencies of rotated pairs, and the scalings of long contexts.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "core/name_table.h"
#include "ops/rope.h"

namespace flashinfer {
namespace {

constexpr NameTable<RopeScaling, 3> kScalings{{"linear", "llama31", "yarn"}};

void SmoothByFrequency(const RopeOptions& options, RopeRule& rule) {
  const double low = options.low_freq_factor;
  const double high = options.high_freq_factor;
  FLASHINFER_CHECK(high > low, "high_freq_factor: is {}, expected more than low_freq_factor {}",
                   high, low);
  // (turns within the old context - low) / (high - low)
  rule.smooth_per_frequency =
      static_cast<double>(options.old_context_len) / (2 * std::numbers::pi * (high - low));
  rule.smooth_constant = -low / (high - low);
}

void SmoothByPair(const RopeOptions& options, int64_t rotary_dim, RopeRule& rule) {
  FLASHINFER_CHECK(options.rope_theta > 1, "rope_theta: is {}, YaRN expects more than 1",
                   options.rope_theta);
  FLASHINFER_CHECK(options.rope_scale >= 1, "rope_scale: is {}, YaRN expects 1 or more",
                   options.rope_scale);
  FLASHINFER_CHECK(options.beta_slow > 0 && options.beta_fast >= options.beta_slow,
                   "beta_fast and beta_slow: are {} and {}, expected beta_fast >= beta_slow > 0",
                   options.beta_fast, options.beta_slow);
  // The pair that turns `num_turns` times within the old context.
  const auto pair_of = [&](double num_turns) {
    const double wavelength =
        static_cast<double>(options.old_context_len) / (num_turns * 2 * std::numbers::pi);
    return static_cast<double>(rotary_dim) * std::log(wavelength) / (2 * std::log(rule.theta));
  };
  const double first = std::max(0.0, std::floor(pair_of(options.beta_fast)));
  const double last =
      std::min(static_cast<double>(rotary_dim - 1), std::ceil(pair_of(options.beta_slow)));
  rule.smooth_per_pair = -1 / std::max(0.001, last - first);
  rule.smooth_constant = 1 - first * rule.smooth_per_pair;
  rule.magnitude = options.attention_factor != 0 ? options.attention_factor
                                                 : 1 + 0.1f * std::log(options.rope_scale);
}

}  // namespace

std::string ValueText(RopeScaling value) { return std::string(kScalings[value]); }
void ParseValue(std::string_view field, std::string_view text, RopeScaling& value) {
  kScalings.Parse(field, text, value);
}

RopeRule MakeRopeRule(const RopeOptions& options, int64_t rotary_dim) {
  FLASHINFER_CHECK(options.rope_theta > 0, "rope_theta: is {}, expected more than 0",
                   options.rope_theta);
  FLASHINFER_CHECK(options.rope_scale > 0, "rope_scale: is {}, expected more than 0",
                   options.rope_scale);
  RopeRule rule{.theta = static_cast<double>(options.rope_theta),
                .scale = static_cast<double>(options.rope_scale),
                .frequency_factors = options.frequency_factors.data_as<const float>()};
  if (options.scaling == RopeScaling::kLinear) return rule;
  FLASHINFER_CHECK(options.old_context_len > 0, "old_context_len: is {}, expected 1 or more",
                   options.old_context_len);
  if (options.scaling == RopeScaling::kLlama31) {
    SmoothByFrequency(options, rule);
  } else {
    SmoothByPair(options, rotary_dim, rule);
  }
  return rule;
}

void FillTurnsPerPosition(const RopeRule& rule, int64_t rotary_dim, double* turns) {
  const int64_t num_pairs = rotary_dim / 2;
  if (num_pairs == 0) return;
  // Successive products instead of a power each: after i of them the error is i units of 2^-53,
  // and the pairs with many of them turn slowly.
  const double ratio = std::pow(rule.theta, -1.0 / static_cast<double>(num_pairs));
  double frequency = 1;
  for (int64_t i = 0; i < num_pairs; ++i, frequency *= ratio) {
    const double smooth =
        std::clamp(frequency * rule.smooth_per_frequency +
                       static_cast<double>(i) * rule.smooth_per_pair + rule.smooth_constant,
                   0.0, 1.0);
    turns[i] = frequency * ((1 - smooth) / rule.scale + smooth) / (2 * std::numbers::pi);
  }
}

}  // namespace flashinfer
