// SPDX-License-Identifier: Apache-2.0
// Packs a model's weights and runs its layers, one operator after the other.
#include "engine/model.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "flashinfer/activation.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/error.h"
#include "flashinfer/gemm.h"
#include "flashinfer/norm.h"
#include "flashinfer/page.h"
#include "flashinfer/rope.h"

namespace flashinfer::engine {
namespace {

/// Memory that takes no space until it is written.
class LazyMemory {
 public:
  LazyMemory() = default;
  explicit LazyMemory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      throw Error(ErrorKind::kDevice, fmt::format("no memory for {} MiB", bytes >> 20));
    }
    madvise(data_, bytes, MADV_HUGEPAGE);  // decode reads a fifth faster from such
  }
  LazyMemory(LazyMemory&& other) noexcept { *this = std::move(other); }
  LazyMemory& operator=(LazyMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~LazyMemory() {
    if (data_ != nullptr && data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// A dense f32 matrix of up to `max_rows` rows.
class Scratch {
 public:
  Scratch(int64_t max_rows, int64_t cols)
      : memory_(static_cast<size_t>(max_rows * cols) * sizeof(float)), cols_(cols) {}
  TensorView Rows(int64_t num_rows) const {
    return TensorView(memory_.data(), DType::kF32, {num_rows, cols_});
  }

 private:
  LazyMemory memory_;
  int64_t cols_;
};

struct Layer {
  std::vector<float> attention_norm, ffn_norm, query_norm, key_norm, qkv_bias;
  PackedWeight qkv, attention_output, gate_up, down;
};

std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

TensorView View(const std::vector<float>& values) {
  if (values.empty()) return {};
  return TensorView(values.data(), DType::kF32, {static_cast<int64_t>(values.size())});
}

TensorView View(std::span<const int32_t> values) {
  return TensorView(values.data(), DType::kI32, {static_cast<int64_t>(values.size())});
}

/// Some of the heads that a matrix' columns are.
TensorView Heads(const TensorView& matrix, int64_t first, int64_t num_heads, int64_t head_dim) {
  return TensorView(matrix.data_as<float>() + first * head_dim, DType::kF32,
                    {matrix.shape(0), num_heads, head_dim}, {matrix.stride(0), head_dim, 1});
}

/// Moves the wanted rows to the front.
void KeepRows(const TensorView& matrix, std::span<const int32_t> rows) {
  const auto cols = static_cast<size_t>(matrix.shape(1));
  auto* data = matrix.data_as<float>();
  for (size_t i = 0; i < rows.size(); ++i) {
    // Rows rise, so a row is read before it is written over.
    std::memmove(data + i * cols, data + static_cast<size_t>(rows[i]) * cols, cols * sizeof(float));
  }
}

}  // namespace

void StepBatch::Clear() {
  for (std::vector<int32_t>* list :
       {&token_ids, &positions, &requests, &page_indices, &last_page_len, &logit_rows}) {
    list->clear();
  }
  qo_indptr.assign(1, 0);
  page_indptr.assign(1, 0);
  num_decodes = 0;
}

struct Model::Impl {
  Impl(const Checkpoint& checkpoint, const ModelLimits& limits);

  PackedWeight Pack(const Checkpoint& checkpoint, std::initializer_list<WeightView> sources);
  Layer LoadLayer(const Checkpoint& checkpoint, const LayerWeights& weights);
  void Plan(const StepBatch& batch);
  void Attend(const StepBatch& batch, const Layer& layer, const PagedKvCache& cache,
              const TensorView& x);
  void FeedForward(const Layer& layer, const TensorView& x);
  PagedKvCache Cache(int64_t layer) const;
  PageTable Pages(const StepBatch& batch) const;

  ModelConfig config;
  ModelLimits limits;
  PackedWeight output;
  std::optional<PackedWeight> embedding;  ///< where it is not the output
  std::vector<float> output_norm;
  std::vector<Layer> layers;
  int64_t packed_bytes = 0;
  LazyMemory kv;
  Scratch x, normed, qkv, attended, gate_up, activated, logits;
  Workspace decode_workspace, prefill_workspace;
  BatchDecode decode{decode_workspace};
  BatchPrefill prefill{prefill_workspace};
  std::vector<int32_t> prefill_qo_indptr, prefill_page_indptr;
};

Model::Impl::Impl(const Checkpoint& checkpoint, const ModelLimits& lim)
    : config(checkpoint.config()),
      limits(lim),
      output_norm(Copy(checkpoint.output_norm())),
      kv(static_cast<size_t>(PageBytes(config, lim.page_size) * lim.num_pages)),
      x(lim.max_step_tokens, config.hidden_size),
      normed(lim.max_step_tokens, config.hidden_size),
      qkv(lim.max_step_tokens, (config.num_qo_heads + 2 * config.num_kv_heads) * config.head_dim),
      attended(lim.max_step_tokens, config.num_qo_heads * config.head_dim),
      gate_up(lim.max_step_tokens, 2 * config.ffn_size),
      activated(lim.max_step_tokens, config.ffn_size),
      logits(lim.max_requests, config.vocab_size) {
  output = Pack(checkpoint, {checkpoint.output()});
  if (!config.has_tied_output) embedding = Pack(checkpoint, {checkpoint.token_embedding()});
  layers.reserve(checkpoint.layers().size());
  for (const LayerWeights& weights : checkpoint.layers()) {
    layers.push_back(LoadLayer(checkpoint, weights));
  }
}

PackedWeight Model::Impl::Pack(const Checkpoint& checkpoint,
                               std::initializer_list<WeightView> sources) {
  const auto release = [](void* context, const WeightView& packed) {
    static_cast<const Checkpoint*>(context)->ReleasePages(packed);
  };
  PackedWeight packed(std::span(sources.begin(), sources.size()),
                      {.packed = release, .context = const_cast<Checkpoint*>(&checkpoint)});
  packed_bytes += static_cast<int64_t>(packed.size_bytes());
  return packed;
}

Layer Model::Impl::LoadLayer(const Checkpoint& checkpoint, const LayerWeights& weights) {
  Layer layer;
  layer.attention_norm = Copy(weights.attention_norm);
  layer.ffn_norm = Copy(weights.ffn_norm);
  layer.query_norm = Copy(weights.q_norm);
  layer.key_norm = Copy(weights.k_norm);
  for (std::span<const float> bias : {weights.q_bias, weights.k_bias, weights.v_bias}) {
    layer.qkv_bias.insert(layer.qkv_bias.end(), bias.begin(), bias.end());
  }
  layer.qkv = Pack(checkpoint, {weights.q, weights.k, weights.v});
  layer.attention_output = Pack(checkpoint, {weights.attention_output});
  layer.gate_up = Pack(checkpoint, {weights.gate, weights.up});
  layer.down = Pack(checkpoint, {weights.down});
  return layer;
}

PagedKvCache Model::Impl::Cache(int64_t layer) const {
  const Dims shape{limits.num_pages, config.num_kv_heads, limits.page_size, config.head_dim};
  // All layers of a page are neighbours: the system's huge pages then hold little that is unused.
  const int64_t page_size = shape[1] * shape[2] * shape[3];
  const Dims strides{config.num_layers * 2 * page_size, shape[2] * shape[3], shape[3], 1};
  uint16_t* k = reinterpret_cast<uint16_t*>(kv.data()) + layer * 2 * page_size;
  return {TensorView(k, DType::kF16, shape, strides),
          TensorView(k + page_size, DType::kF16, shape, strides), KvLayout::kHND};
}

PageTable Model::Impl::Pages(const StepBatch& batch) const {
  return {View(batch.page_indptr), View(batch.page_indices), View(batch.last_page_len)};
}

void Model::Impl::Plan(const StepBatch& batch) {
  const auto num_decodes = static_cast<size_t>(batch.num_decodes);
  const auto num_requests = static_cast<size_t>(batch.num_requests());
  const auto problem_of = [&](MaskMode mask) {
    AttentionProblem problem;
    problem.mask = mask;
    problem.dtype_q = problem.dtype_out = DType::kF32;
    problem.dtype_kv = DType::kF16;
    problem.num_qo_heads = static_cast<int32_t>(config.num_qo_heads);
    problem.num_kv_heads = static_cast<int32_t>(config.num_kv_heads);
    problem.head_dim_qk = problem.head_dim_vo = static_cast<int32_t>(config.head_dim);
    problem.page_size = limits.page_size;
    const float magnitude = config.rope.magnitude;
    problem.sm_scale = magnitude * magnitude / std::sqrt(static_cast<float>(config.head_dim));
    return problem;
  };
  const std::span<const int32_t> page_indptr(batch.page_indptr);
  const std::span<const int32_t> page_indices(batch.page_indices);
  const std::span<const int32_t> last_page_len(batch.last_page_len);
  if (num_decodes > 0) {
    decode.Plan(problem_of(MaskMode::kNone),
                {View(page_indptr.first(num_decodes + 1)), View(page_indices),
                 View(last_page_len.first(num_decodes))});
  }
  if (num_requests > num_decodes) {
    // The others' lists begin at 0 again.
    prefill_qo_indptr.clear();
    prefill_page_indptr.clear();
    const int32_t first_page = page_indptr[num_decodes];
    for (size_t i = num_decodes; i <= num_requests; ++i) {
      prefill_qo_indptr.push_back(batch.qo_indptr[i] - batch.num_decodes);
      prefill_page_indptr.push_back(page_indptr[i] - first_page);
    }
    prefill.Plan(
        problem_of(MaskMode::kCausal), View(prefill_qo_indptr),
        {View(prefill_page_indptr), View(page_indices.subspan(static_cast<size_t>(first_page))),
         View(last_page_len.subspan(num_decodes))});
  }
}

void Model::Impl::Attend(const StepBatch& batch, const Layer& layer, const PagedKvCache& cache,
                         const TensorView& hidden) {
  const ModelConfig& c = config;
  const int64_t num_tokens = batch.num_tokens();
  const TensorView in = normed.Rows(num_tokens);
  const TensorView heads = qkv.Rows(num_tokens);
  RmsNorm(hidden, View(layer.attention_norm), in, {.eps = c.rms_eps});
  Linear(in, layer.qkv, heads, {.bias = View(layer.qkv_bias)});
  const TensorView q = Heads(heads, 0, c.num_qo_heads, c.head_dim);
  const TensorView k = Heads(heads, c.num_qo_heads, c.num_kv_heads, c.head_dim);
  const TensorView v = Heads(heads, c.num_qo_heads + c.num_kv_heads, c.num_kv_heads, c.head_dim);
  if (!layer.query_norm.empty()) RmsNorm(q, View(layer.query_norm), q, {.eps = c.rms_eps});
  if (!layer.key_norm.empty()) RmsNorm(k, View(layer.key_norm), k, {.eps = c.rms_eps});
  ApplyRope(q, k, View(batch.positions), q, k,
            {.style = c.rope.style,
             .rotary_dim = c.rope.rotary_dim,
             .rope_theta = c.rope.theta,
             .rope_scale = c.rope.scale,
             .frequency_factors = View(c.rope.frequency_factors)});
  AppendPagedKvCache(k, v, View(batch.requests), View(batch.positions), cache, Pages(batch));
  const TensorView out = Heads(attended.Rows(num_tokens), 0, c.num_qo_heads, c.head_dim);
  const int64_t num_decodes = batch.num_decodes;
  if (num_decodes > 0) decode.Run(q.Slice(0, num_decodes), cache, out.Slice(0, num_decodes));
  if (batch.num_requests() > num_decodes) {
    prefill.Run(q.Slice(num_decodes, num_tokens), cache, out.Slice(num_decodes, num_tokens));
  }
}

void Model::Impl::FeedForward(const Layer& layer, const TensorView& hidden) {
  const int64_t num_tokens = hidden.shape(0);
  const TensorView in = normed.Rows(num_tokens);
  const TensorView both = gate_up.Rows(num_tokens);
  const TensorView product = activated.Rows(num_tokens);
  Linear(attended.Rows(num_tokens), layer.attention_output, hidden, {.residual = hidden});
  RmsNorm(hidden, View(layer.ffn_norm), in, {.eps = config.rms_eps});
  Linear(in, layer.gate_up, both);
  SiluAndMul(both, product);
  Linear(product, layer.down, hidden, {.residual = hidden});
}

Model::Model(const Checkpoint& checkpoint, const ModelLimits& limits)
    : impl_(std::make_unique<Impl>(checkpoint, limits)) {}
Model::~Model() = default;

const ModelConfig& Model::config() const { return impl_->config; }
int64_t Model::weight_bytes() const { return impl_->packed_bytes; }

int64_t Model::PageBytes(const ModelConfig& config, int32_t page_size) {
  return 2 * config.num_layers * page_size * config.num_kv_heads * config.head_dim *
         SizeBytes(DType::kF16);
}

TensorView Model::Forward(const StepBatch& batch) {
  Impl& m = *impl_;
  const auto num_logits = static_cast<int64_t>(batch.logit_rows.size());
  TensorView x = m.x.Rows(batch.num_tokens());
  (m.embedding ? *m.embedding : m.output).GatherRows(View(batch.token_ids), x);
  m.Plan(batch);
  for (size_t i = 0; i < m.layers.size(); ++i) {
    m.Attend(batch, m.layers[i], m.Cache(static_cast<int64_t>(i)), x);
    if (i + 1 == m.layers.size()) {
      // Behind the last attention, only rows whose logits are wanted matter.
      KeepRows(x, batch.logit_rows);
      KeepRows(m.attended.Rows(batch.num_tokens()), batch.logit_rows);
      x = m.x.Rows(num_logits);
    }
    if (x.shape(0) > 0) m.FeedForward(m.layers[i], x);
  }
  const TensorView logits = m.logits.Rows(num_logits);
  if (num_logits == 0) return logits;
  const TensorView in = m.normed.Rows(num_logits);
  RmsNorm(x, View(m.output_norm), in, {.eps = m.config.rms_eps});
  Linear(in, m.output, logits);
  return logits;
}

}  // namespace flashinfer::engine
