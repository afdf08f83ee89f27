// SPDX-License-Identifier: Apache-2.0
// Hyperparameters and weights of dense Llama, Qwen2 and Qwen3 models from GGUF.
#include "engine/gguf_model.h"

#include <cmath>
#include <unordered_set>

#include "engine/read_error.h"
#include "engine/rope_scaling.h"

namespace flashinfer::engine {
namespace {

constexpr int64_t kMaxSize = 1 << 24;  // of any dimension; keeps products within int64

/// Keys that change the computation where they are not 0.
constexpr std::string_view kUnsupportedKeys[] = {
    "expert_count",
    "attention.sliding_window",
    "attention.scale",
    "logit_scale",
    "residual_scale",
    "embedding_scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "rope.scaling.yarn_log_multiplier",
};

class GgufModelReader {
 public:
  explicit GgufModelReader(const GgufFile& file) : file_(file) {}

  CheckpointContent Read() {
    ReadArchitecture();
    ReadSizes();
    config().rope = ReadRope(file_, config());
    used_.insert(kRopeFactorsName);
    ReadWeights();
    for (const GgufTensor& tensor : file_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      Fail(ErrorKind::kUnsupported, "{}: tensor {} has no place in a dense {} model", file_.name(),
           Quoted(tensor.name), Name(config().architecture));
    }
    return std::move(content_);
  }

 private:
  ModelConfig& config() { return content_.config; }

  void ReadArchitecture() {
    const std::string_view name = file_.GetString("general.architecture");
    for (const auto architecture :
         {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
      if (name == Name(architecture)) {
        config().architecture = architecture;
        prefix_ = fmt::format("{}.", name);
      }
    }
    if (prefix_.empty()) {
      Fail(ErrorKind::kUnsupported,
           "{}: architecture {} is not supported; llama, qwen2 and qwen3 are", file_.name(),
           Quoted(name));
    }
    for (const std::string_view key : kUnsupportedKeys) {
      const double value = file_.GetFloat(prefix_ + std::string(key), 0);
      if (value != 0) {
        Fail(ErrorKind::kUnsupported, "{}: {}{} is {}, which is not supported", file_.name(),
             prefix_, key, value);
      }
    }
    if (!file_.GetBool(prefix_ + "attention.causal", true)) {
      Fail(ErrorKind::kUnsupported, "{}: {}attention.causal is false, only causal is supported",
           file_.name(), prefix_);
    }
  }

  int64_t CheckSize(const std::string& key, int64_t value) const {
    if (value < 1 || value > kMaxSize) {
      Fail(ErrorKind::kInvalidArgument, "{}: {}{} is {}, 1 to {} is accepted", file_.name(),
           prefix_, key, value, kMaxSize);
    }
    return value;
  }

  int64_t Size(const std::string& key) const {
    const std::string full_key = prefix_ + key;
    if (file_.ArraySize(full_key)) {
      Fail(ErrorKind::kUnsupported, "{}: {} differs between layers, which is not supported",
           file_.name(), full_key);
    }
    return CheckSize(key, file_.GetInt(full_key));
  }

  int64_t Size(const std::string& key, int64_t fallback) const {
    return file_.Has(prefix_ + key) ? Size(key) : fallback;
  }

  void ReadSizes() {
    ModelConfig& c = config();
    c.num_layers = Size("block_count");
    c.hidden_size = Size("embedding_length");
    c.ffn_size = Size("feed_forward_length");
    c.context_length = Size("context_length");
    c.num_qo_heads = Size("attention.head_count");
    c.num_kv_heads = Size("attention.head_count_kv", c.num_qo_heads);
    if (c.num_qo_heads % c.num_kv_heads != 0) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: {}attention.head_count_kv is {}, a divisor of the {} query heads is accepted",
           file_.name(), prefix_, c.num_kv_heads, c.num_qo_heads);
    }
    c.head_dim = Size("attention.key_length",
                      CheckSize("embedding_length / head_count", c.hidden_size / c.num_qo_heads));
    if (const int64_t value_dim = Size("attention.value_length", c.head_dim);
        value_dim != c.head_dim) {
      Fail(ErrorKind::kUnsupported,
           "{}: {}attention.value_length is {}, only the length of keys, {}, is supported",
           file_.name(), prefix_, value_dim, c.head_dim);
    }
    const double eps = file_.GetFloat(prefix_ + "attention.layer_norm_rms_epsilon");
    c.rms_eps = static_cast<float>(eps);
    if (!(eps >= 0) || !std::isfinite(c.rms_eps)) {
      Fail(ErrorKind::kInvalidArgument,
           "{}: {}attention.layer_norm_rms_epsilon is {}, at least 0 is accepted", file_.name(),
           prefix_, eps);
    }
  }

  const GgufTensor& Tensor(std::string_view name) {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      Fail(ErrorKind::kInvalidArgument, "{}: has no tensor '{}'", file_.name(), name);
    }
    used_.insert(tensor->name);
    return *tensor;
  }

  [[noreturn]] void FailShape(const GgufTensor& tensor, std::string_view expected) const {
    const auto dims = std::span(tensor.shape).first(static_cast<size_t>(tensor.num_dims));
    Fail(ErrorKind::kInvalidArgument, "{}: tensor '{}' is [{}], the model's sizes make it {}",
         file_.name(), tensor.name, fmt::join(dims, ", "), expected);
  }

  /// A matrix; `rows` -1 takes the tensor's.
  WeightView Matrix(std::string_view name, int64_t rows, int64_t cols) {
    const GgufTensor& tensor = Tensor(name);
    if (tensor.num_dims != 2 || tensor.cols() != cols || (rows >= 0 && tensor.rows() != rows)) {
      FailShape(tensor, rows < 0 ? fmt::format("[vocabulary, {}]", cols)
                                 : fmt::format("[{}, {}]", rows, cols));
    }
    const std::optional<WeightFormat> format = WeightFormatOf(tensor.type);
    if (!format) {
      Fail(ErrorKind::kUnsupported,
           "{}: tensor '{}' is {}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K "
           "and MXFP4 are supported",
           file_.name(), tensor.name, Name(tensor.type));
    }
    return {tensor.bytes.data(), *format, tensor.rows(), cols};
  }

  std::span<const float> Vector(std::string_view name, int64_t size) {
    const GgufTensor& tensor = Tensor(name);
    if (tensor.num_dims != 1 || tensor.cols() != size) FailShape(tensor, fmt::format("[{}]", size));
    if (tensor.type != GgmlType::kF32) {
      Fail(ErrorKind::kUnsupported, "{}: tensor '{}' is {}; of vectors only F32 is supported",
           file_.name(), tensor.name, Name(tensor.type));
    }
    return {reinterpret_cast<const float*>(tensor.bytes.data()), static_cast<size_t>(size)};
  }

  void ReadWeights() {
    ModelConfig& c = config();
    content_.token_embedding = Matrix("token_embd.weight", -1, c.hidden_size);
    c.vocab_size = CheckSize("vocab_size", content_.token_embedding.rows);
    constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
    const int64_t num_tokens = file_.ArraySize(kTokensKey).value_or(c.vocab_size);
    if (num_tokens != c.vocab_size) {
      Fail(ErrorKind::kInvalidArgument, "{}: {} has {} tokens, token_embd.weight has {} rows",
           file_.name(), kTokensKey, num_tokens, c.vocab_size);
    }
    c.has_tied_output = file_.FindTensor("output.weight") == nullptr;
    content_.output = c.has_tied_output ? content_.token_embedding
                                        : Matrix("output.weight", c.vocab_size, c.hidden_size);
    content_.output_norm = Vector("output_norm.weight", c.hidden_size);
    c.has_qk_norm = c.architecture == Architecture::kQwen3;
    c.has_qkv_bias =
        c.architecture != Architecture::kQwen3 && file_.FindTensor("blk.0.attn_q.bias") != nullptr;
    for (int64_t layer = 0; layer < c.num_layers; ++layer) {
      content_.layers.push_back(ReadLayer(layer));
    }
  }

  LayerWeights ReadLayer(int64_t layer) {
    const ModelConfig& c = config();
    const int64_t q_size = c.num_qo_heads * c.head_dim;
    const int64_t kv_size = c.num_kv_heads * c.head_dim;
    const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}", layer, part); };
    LayerWeights w;
    w.attention_norm = Vector(name("attn_norm.weight"), c.hidden_size);
    w.q = Matrix(name("attn_q.weight"), q_size, c.hidden_size);
    w.k = Matrix(name("attn_k.weight"), kv_size, c.hidden_size);
    w.v = Matrix(name("attn_v.weight"), kv_size, c.hidden_size);
    if (c.has_qkv_bias) {
      w.q_bias = Vector(name("attn_q.bias"), q_size);
      w.k_bias = Vector(name("attn_k.bias"), kv_size);
      w.v_bias = Vector(name("attn_v.bias"), kv_size);
    }
    if (c.has_qk_norm) {
      w.q_norm = Vector(name("attn_q_norm.weight"), c.head_dim);
      w.k_norm = Vector(name("attn_k_norm.weight"), c.head_dim);
    }
    w.attention_output = Matrix(name("attn_output.weight"), c.hidden_size, q_size);
    w.ffn_norm = Vector(name("ffn_norm.weight"), c.hidden_size);
    w.gate = Matrix(name("ffn_gate.weight"), c.ffn_size, c.hidden_size);
    w.up = Matrix(name("ffn_up.weight"), c.ffn_size, c.hidden_size);
    w.down = Matrix(name("ffn_down.weight"), c.hidden_size, c.ffn_size);
    return w;
  }

  const GgufFile& file_;
  std::string prefix_;
  CheckpointContent content_;
  std::unordered_set<std::string_view> used_;
};

}  // namespace

CheckpointContent ReadGgufModel(const GgufFile& file) { return GgufModelReader(file).Read(); }

}  // namespace flashinfer::engine
