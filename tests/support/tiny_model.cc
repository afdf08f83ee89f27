// SPDX-License-Identifier: Apache-2.0
// Making of small random models.
#include "support/tiny_model.h"

#include <cmath>
#include <random>

namespace flashinfer::test {
namespace {

/// Weights N(0, 1 / cols), so that products keep the size of their input.
class RandomWeights {
 public:
  explicit RandomWeights(uint64_t seed) : random_(seed) {}

  std::vector<float> Make(int64_t size, float mean, float deviation) {
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values) value = normal(random_);
    return values;
  }
  std::vector<float> Matrix(int64_t rows, int64_t cols) {
    return Make(rows * cols, 0, 1 / std::sqrt(static_cast<float>(cols)));
  }
  std::vector<float> Norm(int64_t size) { return Make(size, 1, 0.1f); }

 private:
  std::mt19937_64 random_;
};

class TinyGgufMaker {
 public:
  explicit TinyGgufMaker(const TinyModel& model) : m_(model), weights_(model.seed) {}

  std::vector<uint8_t> Make() {
    SetSizes();
    SetVocabulary();
    if (m_.extra) m_.extra(writer_);
    const int64_t vocab_size = static_cast<int64_t>(vocabulary_.tokens.size());
    AddMatrix("token_embd", vocab_size, m_.hidden_size);
    if (m_.has_rope_factors) AddRopeFactors();
    for (int64_t layer = 0; layer < m_.num_layers; ++layer) AddLayer(layer);
    AddVector("output_norm.weight", weights_.Norm(m_.hidden_size));
    if (m_.has_untied_output) AddMatrix("output", vocab_size, m_.hidden_size);
    return writer_.Bytes();
  }

 private:
  void SetSizes() {
    const auto set = [&](const char* key, auto value) {
      writer_.Set(m_.architecture + "." + key, value);
    };
    const auto set_size = [&](const char* key, int64_t value) {
      set(key, static_cast<uint32_t>(value));
    };
    writer_.Set("general.architecture", m_.architecture);
    set_size("block_count", m_.num_layers);
    set_size("embedding_length", m_.hidden_size);
    set_size("feed_forward_length", m_.ffn_size);
    set_size("context_length", m_.context_length);
    set_size("attention.head_count", m_.num_qo_heads);
    set_size("attention.head_count_kv", m_.num_kv_heads);
    set_size("attention.key_length", m_.head_dim);
    set_size("attention.value_length", m_.head_dim);
    set("attention.layer_norm_rms_epsilon", m_.rms_eps);
    set("rope.freq_base", m_.rope_theta);
  }

  void SetVocabulary() {
    writer_.Set("tokenizer.ggml.model", "gpt2");
    writer_.Set("tokenizer.ggml.pre", m_.architecture == "llama" ? "smollm" : "qwen2");
    writer_.Set("tokenizer.ggml.tokens", vocabulary_.tokens);
    writer_.Set("tokenizer.ggml.token_type", vocabulary_.types);
    writer_.Set("tokenizer.ggml.merges", vocabulary_.merges);
    writer_.Set("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(vocabulary_.ids.end_of_text));
    writer_.Set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(vocabulary_.ids.im_end));
    writer_.Set("tokenizer.ggml.add_bos_token", false);
    writer_.Set("tokenizer.chat_template",
                "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if "
                "add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  }

  bool IsLeftOut(const std::string& name) const { return m_.leave_out && m_.leave_out(name); }

  /// `stem` is the tensor's name without `.weight`.
  void AddMatrix(const std::string& stem, int64_t rows, int64_t cols) {
    const std::string part = stem.substr(stem.rfind('.') + 1);
    WeightFormat format = m_.format;
    for (const std::string& key : {part, stem + ".weight"}) {
      if (const auto found = m_.formats.find(key); found != m_.formats.end()) {
        format = found->second;
      }
    }
    const std::vector<float> values = weights_.Matrix(rows, cols);
    if (!IsLeftOut(stem + ".weight")) {
      writer_.AddTensor(stem + ".weight", {rows, cols}, format, values);
    }
  }

  void AddVector(const std::string& name, const std::vector<float>& values) {
    if (IsLeftOut(name)) return;
    writer_.AddTensor(name, {static_cast<int64_t>(values.size())}, WeightFormat::kF32, values);
  }

  void AddRopeFactors() {
    std::vector<float> factors;
    for (int64_t pair = 0; pair < m_.head_dim / 2; ++pair) {
      factors.push_back(1 + 7 * static_cast<float>(pair) / static_cast<float>(m_.head_dim / 2));
    }
    AddVector("rope_freqs.weight", factors);
  }

  void AddLayer(int64_t layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const int64_t q_size = m_.num_qo_heads * m_.head_dim;
    const int64_t kv_size = m_.num_kv_heads * m_.head_dim;
    AddVector(blk + "attn_norm.weight", weights_.Norm(m_.hidden_size));
    AddMatrix(blk + "attn_q", q_size, m_.hidden_size);
    AddMatrix(blk + "attn_k", kv_size, m_.hidden_size);
    AddMatrix(blk + "attn_v", kv_size, m_.hidden_size);
    if (m_.has_qkv_bias) {
      AddVector(blk + "attn_q.bias", weights_.Make(q_size, 0, 0.2f));
      AddVector(blk + "attn_k.bias", weights_.Make(kv_size, 0, 0.2f));
      AddVector(blk + "attn_v.bias", weights_.Make(kv_size, 0, 0.2f));
    }
    if (m_.architecture == "qwen3") {
      AddVector(blk + "attn_q_norm.weight", weights_.Norm(m_.head_dim));
      AddVector(blk + "attn_k_norm.weight", weights_.Norm(m_.head_dim));
    }
    AddMatrix(blk + "attn_output", m_.hidden_size, q_size);
    AddVector(blk + "ffn_norm.weight", weights_.Norm(m_.hidden_size));
    AddMatrix(blk + "ffn_gate", m_.ffn_size, m_.hidden_size);
    AddMatrix(blk + "ffn_up", m_.ffn_size, m_.hidden_size);
    AddMatrix(blk + "ffn_down", m_.hidden_size, m_.ffn_size);
  }

  const TinyModel& m_;
  RandomWeights weights_;
  const TinyVocabulary vocabulary_ = MakeTinyVocabulary();
  GgufWriter writer_;
};

/// The character that stands for `byte` in byte-level BPE: printable Latin-1 is itself, the others
/// follow each other from U+0100.
std::string ByteCharacter(int byte) {
  const auto is_printable = [](int b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
  };
  int code_point = byte;
  if (!is_printable(byte)) {
    code_point = 0x100;
    for (int b = 0; b < byte; ++b) code_point += is_printable(b) ? 0 : 1;
  }
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 63))};
}

}  // namespace

std::vector<uint8_t> MakeTinyGguf(const TinyModel& model) { return TinyGgufMaker(model).Make(); }

TinyVocabulary MakeTinyVocabulary() {
  TinyVocabulary v;
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back(ByteCharacter(byte));
  const std::string space = ByteCharacter(' ');
  v.merges = {"t h", space + " t", "i n",        "e r", "l l",        "h e",   "th e",
              "o u", "ll o",       space + " w", "a n", space + " a", "he llo"};
  for (const std::string& merge : v.merges) {
    std::string token = merge;
    token.erase(token.find(' '), 1);
    v.tokens.push_back(token);
  }
  v.types.assign(v.tokens.size(), 1);
  const auto add_control = [&](const char* name) {
    v.tokens.push_back(name);
    v.types.push_back(3);
    return static_cast<int32_t>(v.tokens.size() - 1);
  };
  v.ids.end_of_text = add_control("<|endoftext|>");
  v.ids.im_start = add_control("<|im_start|>");
  v.ids.im_end = add_control("<|im_end|>");
  return v;
}

std::vector<uint8_t> MakeTinyLlama2c(const TinyModel& model, int32_t vocab_size) {
  std::vector<uint8_t> bytes;
  for (const int64_t size :
       {model.hidden_size, model.ffn_size, model.num_layers, model.num_qo_heads, model.num_kv_heads,
        int64_t{model.has_untied_output ? -vocab_size : vocab_size}, model.context_length}) {
    AppendNumber(bytes, static_cast<int32_t>(size));
  }
  RandomWeights weights(model.seed);
  const auto append = [&](const std::vector<float>& values) {
    for (const float value : values) AppendNumber(bytes, value);
  };
  const int64_t dim = model.hidden_size;
  const int64_t head_dim = dim / model.num_qo_heads;
  const int64_t rows_and_cols[][2] = {{dim, dim},
                                      {model.num_kv_heads * head_dim, dim},
                                      {model.num_kv_heads * head_dim, dim},
                                      {dim, dim},
                                      {0, dim},  // the norms before the FFN
                                      {model.ffn_size, dim},
                                      {dim, model.ffn_size},
                                      {model.ffn_size, dim}};
  append(weights.Matrix(vocab_size, dim));
  append(weights.Norm(model.num_layers * dim));
  for (const auto& [rows, cols] : rows_and_cols) {
    append(rows == 0 ? weights.Norm(model.num_layers * dim)
                     : weights.Matrix(model.num_layers * rows, cols));
  }
  append(weights.Norm(dim));
  append(std::vector<float>(static_cast<size_t>(model.context_length * head_dim)));
  if (model.has_untied_output) append(weights.Matrix(vocab_size, dim));
  return bytes;
}

}  // namespace flashinfer::test
