// SPDX-License-Identifier: Apache-2.0
// Gathers per-request sampling parameters into rows of one call.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "flashinfer/device.h"
#include "flashinfer/error.h"

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

Sampler::Sampler(Device device, Stream stream)
    : device_(device),
      stream_(stream),
      device_tokens_(device),
      temperature_(device),
      top_p_(device),
      min_p_(device),
      top_k_(device),
      seed_(device),
      offset_(device) {}

SamplingOptions Sampler::OptionsOf(std::span<const Draw> draws) {
  const auto put = [&](auto& per_draw, DType dtype, auto value_of) {
    per_draw.values.clear();
    for (const Draw& draw : draws) per_draw.values.push_back(value_of(draw));
    return per_draw.list.Put(View(per_draw.values, dtype), stream_);
  };
  // The first of the order that filters keep is the likeliest token: what ArgMax() gives.
  SamplingOptions options;
  options.temperature = put(temperature_, DType::kF32, [](const Draw& draw) {
    return draw.params->is_greedy() ? 1.0f : draw.params->temperature;
  });
  options.top_k = put(top_k_, DType::kI32, [](const Draw& draw) {
    return draw.params->is_greedy() ? 1 : draw.params->top_k;
  });
  options.top_p = put(top_p_, DType::kF32, [](const Draw& draw) { return draw.params->top_p; });
  options.min_p = put(min_p_, DType::kF32, [](const Draw& draw) { return draw.params->min_p; });
  options.seed = put(seed_, DType::kI64, [](const Draw& draw) { return draw.params->seed; });
  options.offset = put(offset_, DType::kI64, [](const Draw& draw) { return draw.number; });
  return options;
}

std::span<const int32_t> Sampler::Sample(const TensorView& logits, std::span<const Draw> draws) {
  tokens_.resize(draws.size());
  if (draws.empty()) return tokens_;
  const TensorView host = View(tokens_, DType::kI32);
  const bool is_on_cpu = device_.type == DeviceType::kCpu;
  const TensorView tokens = is_on_cpu
                                ? host
                                : TensorView(device_tokens_.Reserve(draws.size() * sizeof(int32_t)),
                                             DType::kI32, host.shape(), device_);
  if (std::ranges::all_of(draws, [](const Draw& draw) { return draw.params->is_greedy(); })) {
    ArgMax(logits, tokens, {}, Backend(), stream_);
  } else {
    SampleFromLogits(logits, tokens, OptionsOf(draws), {}, stream_);
  }
  if (!is_on_cpu) Copy(tokens, host, stream_);
  return tokens_;
}

}  // namespace flashinfer::engine
