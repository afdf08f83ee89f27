// SPDX-License-Identifier: Apache-2.0
// The forward pass of Llama, Qwen2 and Qwen3 models over flashinfer operators.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/checkpoint.h"
#include "flashinfer/tensor.h"

namespace flashinfer::engine {

/// One step: for each request its next tokens, whose keys and values go into its pages.
struct StepBatch {
  std::vector<int32_t> token_ids;      // [num_tokens]
  std::vector<int32_t> positions;      // [num_tokens]
  std::vector<int32_t> requests;       // [num_tokens]: the request of each token
  std::vector<int32_t> qo_indptr;      // [num_requests + 1]
  std::vector<int32_t> page_indptr;    // [num_requests + 1]
  std::vector<int32_t> page_indices;   // [page_indptr.back()]
  std::vector<int32_t> last_page_len;  // [num_requests]
  std::vector<int32_t> logit_rows;     // [num_logits]: tokens whose logits are wanted
  /// The first requests, each with a single token.
  int32_t num_decodes = 0;

  void Clear();
  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
  int64_t num_requests() const { return static_cast<int64_t>(last_page_len.size()); }
};

struct ModelLimits {
  int64_t max_step_tokens = 512;
  int64_t max_requests = 64;
  int64_t num_pages = 0;
  int32_t page_size = 16;
  Device device = {};  ///< that holds all of it and runs the steps
};

/// Weights, KV cache and scratch of one model.
class Model {
 public:
  /// Packs the weights one by one, giving back each one's pages of the file. The checkpoint may go
  /// afterwards.
  Model(const Checkpoint& checkpoint, const ModelLimits& limits);
  ~Model();

  const ModelConfig& config() const;
  int64_t weight_bytes() const;

  /// Bytes of keys and values that a page takes, all layers together.
  static int64_t PageBytes(const ModelConfig& config, int32_t page_size);

  /// The logits [num_logits, vocab_size] f32 of the wanted rows, on the model's device and in the
  /// order of its stream, valid until the next call.
  TensorView Forward(const StepBatch& batch);
  /// The same in host memory.
  TensorView ForwardToHost(const StepBatch& batch);
  Stream stream() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashinfer::engine
