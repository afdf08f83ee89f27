// SPDX-License-Identifier: Apache-2.0
// Gathers per-request sampling parameters into rows of one call.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "flashinfer/error.h"
#include "flashinfer/sampling.h"

namespace flashinfer::engine {
namespace {

template <class T>
TensorView View(const std::vector<T>& values, DType dtype) {
  return TensorView(values.data(), dtype, {static_cast<int64_t>(values.size())});
}

void CheckRange(const char* name, float value, bool is_good, const char* accepted) {
  if (is_good) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{}: is {}, expected {}", name, value, accepted));
}

}  // namespace

void SamplingParams::Check() const {
  CheckRange("temperature", temperature, std::isfinite(temperature) && temperature >= 0,
             "0 (greedy) or more");
  CheckRange("top-k", static_cast<float>(top_k), top_k >= 0, "0 (off) or more");
  CheckRange("top-p", top_p, top_p > 0 && top_p <= 1, "more than 0, at most 1");
  CheckRange("min-p", min_p, min_p >= 0 && min_p <= 1, "0 to 1");
}

std::span<const int32_t> Sampler::Sample(const TensorView& logits, std::span<const Draw> draws) {
  tokens_.resize(draws.size());
  if (draws.empty()) return tokens_;
  const TensorView tokens = View(tokens_, DType::kI32);
  if (std::ranges::all_of(draws, [](const Draw& draw) { return draw.params->is_greedy(); })) {
    ArgMax(logits, tokens);
    return tokens_;
  }
  temperature_.clear(), top_k_.clear(), top_p_.clear(), min_p_.clear();
  seed_.clear(), offset_.clear();
  for (const Draw& draw : draws) {
    // The first of the order that filters keep is the likeliest token: what ArgMax() gives.
    const bool is_greedy = draw.params->is_greedy();
    temperature_.push_back(is_greedy ? 1.0f : draw.params->temperature);
    top_k_.push_back(is_greedy ? 1 : draw.params->top_k);
    top_p_.push_back(draw.params->top_p);
    min_p_.push_back(draw.params->min_p);
    seed_.push_back(draw.params->seed);
    offset_.push_back(draw.number);
  }
  SamplingOptions options;
  options.temperature = View(temperature_, DType::kF32);
  options.top_k = View(top_k_, DType::kI32);
  options.top_p = View(top_p_, DType::kF32);
  options.min_p = View(min_p_, DType::kF32);
  options.seed = View(seed_, DType::kI64);
  options.offset = View(offset_, DType::kI64);
  SampleFromLogits(logits, tokens, options);
  return tokens_;
}

}  // namespace flashinfer::engine
