// SPDX-License-Identifier: Apache-2.0
// Scales a trace's lengths and fills its prompts.
#include "engine/trace_prompt.h"

#include <algorithm>
#include <cmath>

namespace flashinfer::engine {
namespace {

int64_t Scale(int64_t length, double scale) {
  const double scaled = std::round(static_cast<double>(length) * scale);
  return static_cast<int64_t>(std::clamp(scaled, 1.0, 1e9));
}

/// A hash with good low bits (the finaliser of SplitMix64, Steele et al., 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

TracePrompt MakeTracePrompt(const TraceRequest& request, uint64_t number, double length_scale,
                            int64_t context_length, int64_t vocab_size) {
  TracePrompt prompt;
  int64_t num_tokens = Scale(request.input_length, length_scale);
  prompt.max_tokens = Scale(std::max<int64_t>(request.output_length, 1), length_scale);
  if (num_tokens + prompt.max_tokens > context_length) {
    prompt.is_cut = true;
    prompt.max_tokens = std::clamp<int64_t>(context_length / 2, 1, prompt.max_tokens);
    num_tokens = std::max<int64_t>(std::min(num_tokens, context_length - prompt.max_tokens), 1);
  }
  const int64_t block_size =
      request.block_size == 0 ? num_tokens : Scale(request.block_size, length_scale);
  prompt.tokens.reserve(static_cast<size_t>(num_tokens));
  for (int64_t i = 0; i < num_tokens; ++i) {
    const auto block = static_cast<size_t>(i / block_size);
    // Rounding may leave tokens behind the last block; nobody shares those.
    const bool is_known = block < request.prefix_hashes.size();
    const uint64_t seed = is_known ? Mix(request.prefix_hashes[block]) : ~Mix(number);
    const uint64_t hash = Mix(seed ^ static_cast<uint64_t>(i));
    prompt.tokens.push_back(static_cast<int32_t>(hash % static_cast<uint64_t>(vocab_size)));
  }
  return prompt;
}

}  // namespace flashinfer::engine
