// SPDX-License-Identifier: Apache-2.0
// Opens any bytes as a model, GGUF or llama2.c, and reads both ends of every weight.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/checkpoint.h"
#include "flashinfer/error.h"

namespace flashinfer::engine {
namespace {

uint8_t volatile sink;

void Touch(const WeightView& weight) {
  if (weight.rows < 1 || weight.cols < 1 || weight.cols % BlockSize(weight.format) != 0) {
    std::abort();
  }
  const auto* bytes = static_cast<const uint8_t*>(weight.data);
  const int64_t num_bytes =
      weight.rows * (weight.cols / BlockSize(weight.format)) * BlockBytes(weight.format);
  sink = bytes[0];
  sink = bytes[num_bytes - 1];
}

void Touch(std::span<const float> vector) {
  if (vector.empty()) return;
  sink = static_cast<uint8_t>(vector.front() > 0);
  sink = static_cast<uint8_t>(vector.back() > 0);
}

void TouchAll(const Checkpoint& checkpoint) {
  const ModelConfig& c = checkpoint.config();
  if (c.num_layers != static_cast<int64_t>(checkpoint.layers().size()) || c.head_dim < 1 ||
      c.num_qo_heads % c.num_kv_heads != 0 || c.rope.rotary_dim > c.head_dim) {
    std::abort();
  }
  Touch(checkpoint.token_embedding());
  Touch(checkpoint.output());
  Touch(checkpoint.output_norm());
  for (const LayerWeights& w : checkpoint.layers()) {
    for (const WeightView& matrix : {w.q, w.k, w.v, w.attention_output, w.gate, w.up, w.down}) {
      Touch(matrix);
    }
    for (const std::span<const float> vector :
         {w.attention_norm, w.q_bias, w.k_bias, w.v_bias, w.q_norm, w.k_norm, w.ffn_norm}) {
      Touch(vector);
    }
  }
}

}  // namespace
}  // namespace flashinfer::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace flashinfer::engine;
  try {
    TouchAll(Checkpoint::FromBytes("fuzz", {bytes, size}));
  } catch (const flashinfer::Error&) {
    // Refused in words, as it should be.
  }
  return 0;
}
