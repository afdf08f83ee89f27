// SPDX-License-Identifier: Apache-2.0
// Draws the next token of each request by its own rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flashinfer/tensor.h"

namespace flashinfer::engine {

struct SamplingParams {
  float temperature = 0;  ///< 0: the likeliest token
  int32_t top_k = 0;      ///< 0: off
  float top_p = 1;
  float min_p = 0;
  int64_t seed = 0;

  bool is_greedy() const { return temperature == 0; }
  /// Throws kInvalidArgument naming the first value out of range.
  void Check() const;
};

/// A row of logits and the draw that it is for.
struct Draw {
  const SamplingParams* params;
  int64_t number;  ///< tokens that the request has drawn before
};

class Sampler {
 public:
  /// One token per row. A token depends on its own row and draw only.
  ///
  ///   logits  [num_draws, vocab_size]  f32
  std::span<const int32_t> Sample(const TensorView& logits, std::span<const Draw> draws);

 private:
  std::vector<int32_t> tokens_, top_k_;
  std::vector<float> temperature_, top_p_, min_p_;
  std::vector<int64_t> seed_, offset_;
};

}  // namespace flashinfer::engine
