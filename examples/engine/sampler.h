// SPDX-License-Identifier: Apache-2.0
// Draws the next token of each request by its own rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model_memory.h"
#include "flashinfer/sampling.h"
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
  /// Logits are on `device`, in the order of `stream`.
  Sampler(Device device, Stream stream);

  /// One token per row. A token depends on its own row and draw only.
  ///
  ///   logits  [num_draws, vocab_size]  f32
  std::span<const int32_t> Sample(const TensorView& logits, std::span<const Draw> draws);

 private:
  /// A value per row, where the device can read it.
  template <class T>
  struct PerDraw {
    explicit PerDraw(Device device) : list(device) {}
    std::vector<T> values;
    StepList list;
  };

  SamplingOptions OptionsOf(std::span<const Draw> draws);

  Device device_;
  Stream stream_;
  std::vector<int32_t> tokens_;
  Workspace device_tokens_;
  PerDraw<float> temperature_, top_p_, min_p_;
  PerDraw<int32_t> top_k_;
  PerDraw<int64_t> seed_, offset_;
};

}  // namespace flashinfer::engine
