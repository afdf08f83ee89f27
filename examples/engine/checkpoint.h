// SPDX-License-Identifier: Apache-2.0
// A model's hyperparameters and weights, whichever kind of file they come from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/gguf.h"
#include "flashinfer/gemm.h"
#include "flashinfer/rope.h"

namespace flashinfer::engine {

/// Dense decoder-only transformers with RMSNorm, rotary embedding, GQA and a SiLU-gated FFN.
enum class Architecture { kLlama, kQwen2, kQwen3 };

/// `llama`, `qwen2`, `qwen3`.
std::string_view Name(Architecture architecture);

/// Everything that decides rotation; scalings (linear, Llama-3, YaRN) are resolved into it.
struct RopeConfig {
  RopeStyle style = RopeStyle::kInterleaved;
  int64_t rotary_dim = 0;  ///< even, at most head_dim
  float theta = 1e4f;
  float scale = 1.0f;  ///< divides positions
  /// [rotary_dim / 2], divides each pair's frequency; empty: all ones.
  std::vector<float> frequency_factors;
  /// Multiplies rotated q and k (YaRN's temperature): sm_scale takes its square where the whole
  /// head is rotated, which is required when it is not 1.
  float magnitude = 1.0f;
};

struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_qo_heads = 0;
  int64_t num_kv_heads = 0;  ///< divides num_qo_heads
  int64_t head_dim = 0;
  int64_t ffn_size = 0;
  int64_t vocab_size = 0;
  int64_t context_length = 0;  ///< tokens that the model was made for
  float rms_eps = 0;
  RopeConfig rope;
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  bool has_tied_output = false;
};

/// Vectors are f32; those that a model has not are empty.
struct LayerWeights {
  std::span<const float> attention_norm;  ///< [hidden_size]
  WeightView q;                           ///< [num_qo_heads * head_dim, hidden_size]
  WeightView k;                           ///< [num_kv_heads * head_dim, hidden_size]
  WeightView v;                           ///< as k
  std::span<const float> q_bias;          ///< [num_qo_heads * head_dim]
  std::span<const float> k_bias;          ///< [num_kv_heads * head_dim]
  std::span<const float> v_bias;          ///< as k_bias
  std::span<const float> q_norm;          ///< [head_dim], applied to each head before rotation
  std::span<const float> k_norm;          ///< [head_dim]
  WeightView attention_output;            ///< [hidden_size, num_qo_heads * head_dim]
  std::span<const float> ffn_norm;        ///< [hidden_size]
  WeightView gate;                        ///< [ffn_size, hidden_size]
  WeightView up;                          ///< [ffn_size, hidden_size]
  WeightView down;                        ///< [hidden_size, ffn_size]
};

/// What a model file says.
struct CheckpointContent {
  ModelConfig config;
  std::vector<LayerWeights> layers;
  WeightView token_embedding;          ///< [vocab_size, hidden_size]
  std::span<const float> output_norm;  ///< [hidden_size]
  WeightView output;  ///< [vocab_size, hidden_size]; token_embedding where has_tied_output
};

/// An opened model file. Its views live as long as it does, also after a move.
class Checkpoint {
 public:
  /// A GGUF file, or a llama2.c checkpoint (version 0: seven integers, then f32 weights).
  ///
  /// Throws kIo when the file cannot be read, kUnsupported for an architecture, tensor type or
  /// feature that is beyond this engine, kInvalidArgument for a malformed file; each names the
  /// key or tensor.
  static Checkpoint Open(const std::string& path);
  /// The same for bytes in memory, which are copied; `name` is what messages call them.
  static Checkpoint FromBytes(std::string name, std::span<const uint8_t> bytes);

  const ModelConfig& config() const { return content_.config; }
  std::span<const LayerWeights> layers() const { return content_.layers; }
  const WeightView& token_embedding() const { return content_.token_embedding; }
  std::span<const float> output_norm() const { return content_.output_norm; }
  const WeightView& output() const { return content_.output; }

  /// The GGUF file, which also holds the vocabulary; null for a llama2.c checkpoint.
  const GgufFile* gguf() const { return std::get_if<GgufFile>(source_.get()); }
  /// Of a llama2.c checkpoint that was opened from a path: the tokenizer file beside it,
  /// `tok<vocab_size>.bin` or else `tokenizer.bin`. Throws kIo when there is neither.
  std::string FindTokenizerFile() const;

  /// Takes a weight's pages out of resident memory once it was copied elsewhere; they are read
  /// from the file again if they are touched again.
  void ReleasePages(const WeightView& weight) const;

 private:
  explicit Checkpoint(MappedFile file);

  std::unique_ptr<const std::variant<GgufFile, MappedFile>> source_;
  CheckpointContent content_;
};

}  // namespace flashinfer::engine
