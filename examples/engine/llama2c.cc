// SPDX-License-Identifier: Apache-2.0
// Reading of llama2.c checkpoints: seven int32, then every weight as f32, layers innermost.
#include "engine/llama2c.h"

#include <array>
#include <cstring>

#include "engine/read_error.h"

namespace flashinfer::engine {
namespace {

enum HeaderField { kDim, kFfnSize, kNumLayers, kNumHeads, kNumKvHeads, kVocabSize, kSeqLen };
constexpr std::string_view kFieldNames[] = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                            "n_kv_heads", "vocab_size", "seq_len"};
constexpr size_t kNumFields = std::size(kFieldNames);
constexpr int64_t kMaxSize = 1 << 24;

/// What every file of this kind has, as llama2.c's own code fixes it.
constexpr float kRmsEps = 1e-5f;
constexpr float kRopeTheta = 1e4f;

ModelConfig ReadHeader(const MappedFile& file) {
  std::array<int32_t, kNumFields> header;
  if (file.bytes().size() < sizeof(header)) {
    Fail(ErrorKind::kInvalidArgument,
         "{}: has {} bytes and begins with no 'GGUF': it is neither a GGUF file nor a llama2.c "
         "checkpoint",
         file.name(), file.bytes().size());
  }
  std::memcpy(header.data(), file.bytes().data(), sizeof(header));
  const bool has_tied_output = header[kVocabSize] > 0;
  std::array<int64_t, kNumFields> sizes;
  for (size_t i = 0; i < kNumFields; ++i) {
    sizes[i] = header[i];
    if (i == kVocabSize && !has_tied_output) sizes[i] = -sizes[i];
    if (sizes[i] < 1 || sizes[i] > kMaxSize) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: is no GGUF file, and as a llama2.c checkpoint its {} would be {}; 1 to {} is "
           "accepted",
           file.name(), kFieldNames[i], header[i], kMaxSize);
    }
  }
  if (sizes[kDim] % sizes[kNumHeads] != 0 || sizes[kDim] / sizes[kNumHeads] % 2 != 0 ||
      sizes[kNumHeads] % sizes[kNumKvHeads] != 0) {
    Fail(ErrorKind::kInvalidArgument,
         "{}: dim {}, n_heads {}, n_kv_heads {}: heads must be of one even size, and query heads a "
         "multiple of KV heads",
         file.name(), sizes[kDim], sizes[kNumHeads], sizes[kNumKvHeads]);
  }
  ModelConfig config;
  config.num_layers = sizes[kNumLayers];
  config.hidden_size = sizes[kDim];
  config.num_qo_heads = sizes[kNumHeads];
  config.num_kv_heads = sizes[kNumKvHeads];
  config.head_dim = sizes[kDim] / sizes[kNumHeads];
  config.ffn_size = sizes[kFfnSize];
  config.vocab_size = sizes[kVocabSize];
  config.context_length = sizes[kSeqLen];
  config.rms_eps = kRmsEps;
  config.rope.rotary_dim = config.head_dim;
  config.rope.theta = kRopeTheta;
  config.has_tied_output = has_tied_output;
  return config;
}

/// Hands out the weights one after the other; the size of the file was checked.
class WeightCursor {
 public:
  explicit WeightCursor(const float* data) : data_(data) {}

  std::span<const float> Vector(int64_t size) {
    const float* taken = data_;
    data_ += size;
    return {taken, static_cast<size_t>(size)};
  }

  WeightView Matrix(int64_t rows, int64_t cols) {
    return {Vector(rows * cols).data(), WeightFormat::kF32, rows, cols};
  }

 private:
  const float* data_;
};

}  // namespace

CheckpointContent ReadLlama2cModel(const MappedFile& file) {
  CheckpointContent content;
  content.config = ReadHeader(file);
  const ModelConfig& c = content.config;
  const int64_t kv_size = c.num_kv_heads * c.head_dim;
  const int64_t rope_table_size = c.context_length * c.head_dim;  // cosines and sines, unused
  // Each product is of at most three sizes below 2^24.
  const __int128 layer_size = __int128{c.hidden_size} * (2 + 2 * c.hidden_size + 2 * kv_size) +
                              __int128{3} * c.hidden_size * c.ffn_size;
  const __int128 num_floats = __int128{c.vocab_size} * c.hidden_size * (c.has_tied_output ? 1 : 2) +
                              c.num_layers * layer_size + c.hidden_size + rope_table_size;
  const __int128 num_bytes = num_floats * 4 + __int128{kNumFields * sizeof(int32_t)};
  if (num_bytes != static_cast<__int128>(file.bytes().size())) {
    Fail(ErrorKind::kInvalidArgument,
         "{}: is no GGUF file, and a llama2.c checkpoint with its header ({} layers of {}, {} "
         "tokens) has {:.0f} bytes, it has {}",
         file.name(), c.num_layers, c.hidden_size, c.vocab_size, static_cast<double>(num_bytes),
         file.bytes().size());
  }
  content.layers.resize(static_cast<size_t>(c.num_layers));
  const auto for_layers = [&](auto&& read) {
    for (LayerWeights& layer : content.layers) read(layer);
  };
  WeightCursor next(
      reinterpret_cast<const float*>(file.bytes().data() + kNumFields * sizeof(int32_t)));
  content.token_embedding = next.Matrix(c.vocab_size, c.hidden_size);
  for_layers([&](LayerWeights& w) { w.attention_norm = next.Vector(c.hidden_size); });
  for_layers([&](LayerWeights& w) { w.q = next.Matrix(c.hidden_size, c.hidden_size); });
  for_layers([&](LayerWeights& w) { w.k = next.Matrix(kv_size, c.hidden_size); });
  for_layers([&](LayerWeights& w) { w.v = next.Matrix(kv_size, c.hidden_size); });
  for_layers(
      [&](LayerWeights& w) { w.attention_output = next.Matrix(c.hidden_size, c.hidden_size); });
  for_layers([&](LayerWeights& w) { w.ffn_norm = next.Vector(c.hidden_size); });
  for_layers([&](LayerWeights& w) { w.gate = next.Matrix(c.ffn_size, c.hidden_size); });
  for_layers([&](LayerWeights& w) { w.down = next.Matrix(c.hidden_size, c.ffn_size); });
  for_layers([&](LayerWeights& w) { w.up = next.Matrix(c.ffn_size, c.hidden_size); });
  content.output_norm = next.Vector(c.hidden_size);
  next.Vector(rope_table_size);
  content.output =
      c.has_tied_output ? content.token_embedding : next.Matrix(c.vocab_size, c.hidden_size);
  return content;
}

}  // namespace flashinfer::engine
