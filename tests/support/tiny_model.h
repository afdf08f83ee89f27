// SPDX-License-Identifier: Apache-2.0
// Small models of random weights, with a vocabulary, as GGUF and llama2.c files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "flashinfer/gemm.h"
#include "support/gguf_writer.h"

namespace flashinfer::test {

/// The sizes suit every format: rows of K types are whole blocks of 256.
struct TinyModel {
  std::string architecture = "llama";  ///< or qwen2, qwen3 (which gets its QK norms)
  int64_t num_layers = 2;
  int64_t hidden_size = 256;
  int64_t num_qo_heads = 8;
  int64_t num_kv_heads = 2;
  int64_t head_dim = 32;
  int64_t ffn_size = 512;
  int64_t context_length = 256;
  float rms_eps = 1e-5f;
  float rope_theta = 1e4f;
  WeightFormat format = WeightFormat::kF32;     ///< of every matrix that `formats` does not name
  std::map<std::string, WeightFormat> formats;  ///< by tensor name, or its last part: `attn_q`
  bool has_qkv_bias = false;
  bool has_rope_factors = false;  ///< adds the tensor `rope_freqs.weight`
  bool has_untied_output = false;
  uint64_t seed = 1;
  /// May set keys and add tensors before the model's own tensors.
  std::function<void(GgufWriter&)> extra;
  /// A tensor for which it is true is left out.
  std::function<bool(const std::string&)> leave_out;
};

/// A GGUF file. Activations of such a model stay of order 1.
std::vector<uint8_t> MakeTinyGguf(const TinyModel& model);

/// The token ids of TinyVocabulary() that mean something.
struct TinyVocabularyIds {
  int32_t end_of_text;
  int32_t im_start;
  int32_t im_end;
};

/// Byte-level BPE: the 256 bytes' own tokens (in the alphabet's order of bytes), then a token for
/// each merge, then three control tokens.
struct TinyVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;  ///< 1 normal, 3 control
  std::vector<std::string> merges;
  TinyVocabularyIds ids;
};
TinyVocabulary MakeTinyVocabulary();

/// A llama2.c checkpoint of f32; of `model` the sizes, `has_untied_output` and the seed count.
std::vector<uint8_t> MakeTinyLlama2c(const TinyModel& model, int32_t vocab_size);

}  // namespace flashinfer::test
