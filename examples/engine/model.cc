// SPDX-License-Identifier: Apache-2.0
// Packs a model's weights and runs its layers, one operator after the other.
#include "engine/model.h"

#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>

#include "engine/model_memory.h"
#include "flashinfer/activation.h"
#include "flashinfer/attention/decode.h"
#include "flashinfer/attention/prefill.h"
#include "flashinfer/device.h"
#include "flashinfer/gemm.h"
#include "flashinfer/norm.h"
#include "flashinfer/page.h"
#include "flashinfer/rope.h"

namespace flashinfer::engine {
namespace {

struct Layer {
  Vector attention_norm, ffn_norm, query_norm, key_norm, qkv_bias;
  PackedWeight qkv, attention_output, gate_up, down;
};

TensorView View(std::span<const int32_t> values) {
  return TensorView(values.data(), DType::kI32, {static_cast<int64_t>(values.size())});
}

/// Some of the heads that a matrix' columns are.
TensorView Heads(const TensorView& matrix, int64_t first, int64_t num_heads, int64_t head_dim) {
  return TensorView(matrix.data_as<float>() + first * head_dim, DType::kF32,
                    {matrix.shape(0), num_heads, head_dim}, {matrix.stride(0), head_dim, 1},
                    matrix.device());
}

/// Moves the wanted rows to the front.
void KeepRows(const TensorView& matrix, std::span<const int32_t> rows, Stream stream) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto to = static_cast<int64_t>(i);
    // Rows rise, so a row is read before it is written over.
    if (rows[i] != to) Copy(matrix[rows[i]], matrix[to], stream);
  }
}

/// Attention of a step; on a CUDA device also the whole step as it was recorded.
struct StepAttention {
  explicit StepAttention(Device device) : decode_workspace(device), prefill_workspace(device) {}
  Workspace decode_workspace, prefill_workspace;
  BatchDecode decode{decode_workspace};
  BatchPrefill prefill{prefill_workspace};
  bool has_run = false;
  std::optional<RecordedWork> step;
  std::array<const void*, 5> lists{};  ///< that the recording reads
};

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
  AttentionProblem ProblemOf(MaskMode mask) const;
  void Plan(const StepBatch& batch);
  void PlanPrefill(const StepBatch& batch);
  void Attend(const StepBatch& batch, const Layer& layer, const PagedKvCache& cache,
              const TensorView& x);
  void RunAttention(const StepBatch& batch, const TensorView& q, const PagedKvCache& cache,
                    const TensorView& out);
  void FeedForward(const Layer& layer, const TensorView& x);
  void RunLayers(const StepBatch& batch);
  void RunRecorded(const StepBatch& batch);
  PagedKvCache Cache(int64_t layer) const;
  PageTable Pages(const StepBatch& batch) const;
  bool is_on_cpu() const { return device.type == DeviceType::kCpu; }

  ModelConfig config;
  ModelLimits limits;
  Device device;
  std::optional<OwnedStream> own_stream;
  Stream stream;
  PackedWeight output;
  std::optional<PackedWeight> embedding;  ///< where it is not the output
  Vector output_norm, frequency_factors;
  std::vector<Layer> layers;
  int64_t packed_bytes = 0;
  DeviceMemory kv;
  Matrix x, normed, qkv, attended, gate_up, activated, logits;
  StepList id_list{device}, position_list{device}, request_list{device};
  StepList page_indptr_list{device}, page_list{device};
  TensorView token_ids, positions, requests, page_indptr, page_indices;  // of the step
  std::vector<int32_t> prefill_qo_indptr, prefill_page_indptr;

  StepAttention any_step{device};
  /// On a CUDA device: steps of so many tokens, all of them decodes.
  std::map<int64_t, StepAttention> recorded;
  StepAttention* attention = nullptr;  ///< of the step
  Matrix host_logits;
};

Model::Impl::Impl(const Checkpoint& checkpoint, const ModelLimits& lim)
    : config(checkpoint.config()),
      limits(lim),
      device(lim.device),
      output_norm(checkpoint.output_norm(), device),
      frequency_factors(config.rope.frequency_factors, device),
      kv(static_cast<size_t>(PageBytes(config, lim.page_size) * lim.num_pages), device),
      x(lim.max_step_tokens, config.hidden_size, device),
      normed(lim.max_step_tokens, config.hidden_size, device),
      qkv(lim.max_step_tokens, (config.num_qo_heads + 2 * config.num_kv_heads) * config.head_dim,
          device),
      attended(lim.max_step_tokens, config.num_qo_heads * config.head_dim, device),
      gate_up(lim.max_step_tokens, 2 * config.ffn_size, device),
      activated(lim.max_step_tokens, config.ffn_size, device),
      logits(lim.max_requests, config.vocab_size, device),
      host_logits(lim.max_requests, config.vocab_size, {}) {
  if (!is_on_cpu()) {
    own_stream.emplace(device);
    stream = own_stream->stream();
  }
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
  PackedWeight packed(
      std::span(sources.begin(), sources.size()),
      {.device = device, .packed = release, .context = const_cast<Checkpoint*>(&checkpoint)});
  packed_bytes += static_cast<int64_t>(packed.size_bytes());
  return packed;
}

Layer Model::Impl::LoadLayer(const Checkpoint& checkpoint, const LayerWeights& weights) {
  Layer layer;
  layer.attention_norm = Vector(weights.attention_norm, device);
  layer.ffn_norm = Vector(weights.ffn_norm, device);
  layer.query_norm = Vector(weights.q_norm, device);
  layer.key_norm = Vector(weights.k_norm, device);
  std::vector<float> qkv_bias;
  for (std::span<const float> bias : {weights.q_bias, weights.k_bias, weights.v_bias}) {
    qkv_bias.insert(qkv_bias.end(), bias.begin(), bias.end());
  }
  layer.qkv_bias = Vector(qkv_bias, device);
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
  return {TensorView(k, DType::kF16, shape, strides, device),
          TensorView(k + page_size, DType::kF16, shape, strides, device), KvLayout::kHND};
}

PageTable Model::Impl::Pages(const StepBatch& batch) const {
  return {page_indptr, page_indices, View(batch.last_page_len)};
}

AttentionProblem Model::Impl::ProblemOf(MaskMode mask) const {
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
  problem.arch = ArchOf(device);
  return problem;
}

void Model::Impl::Plan(const StepBatch& batch) {
  token_ids = id_list.Put(View(batch.token_ids), stream);
  positions = position_list.Put(View(batch.positions), stream);
  requests = request_list.Put(View(batch.requests), stream);
  page_indptr = page_indptr_list.Put(View(batch.page_indptr), stream);
  page_indices = page_list.Put(View(batch.page_indices), stream);
  const int64_t num_tokens = batch.num_tokens();
  const bool is_recorded = !is_on_cpu() && batch.num_decodes == num_tokens &&
                           static_cast<int64_t>(batch.logit_rows.size()) == num_tokens;
  attention = is_recorded ? &recorded.try_emplace(num_tokens, device).first->second : &any_step;
  const auto num_decodes = static_cast<size_t>(batch.num_decodes);
  if (num_decodes > 0) {
    const std::span<const int32_t> indptr(batch.page_indptr);
    const std::span<const int32_t> last_page_len(batch.last_page_len);
    attention->decode.Plan(
        ProblemOf(MaskMode::kNone),
        {View(indptr.first(num_decodes + 1)), page_indices, View(last_page_len.first(num_decodes))},
        Backend(), stream);
  }
  if (batch.num_requests() > batch.num_decodes) PlanPrefill(batch);
}

/// Of the requests behind those that decode, whose lists begin at 0 again.
void Model::Impl::PlanPrefill(const StepBatch& batch) {
  prefill_qo_indptr.clear();
  prefill_page_indptr.clear();
  const auto num_decodes = static_cast<size_t>(batch.num_decodes);
  const int32_t first_page = batch.page_indptr[num_decodes];
  for (size_t i = num_decodes; i < batch.page_indptr.size(); ++i) {
    prefill_qo_indptr.push_back(batch.qo_indptr[i] - batch.num_decodes);
    prefill_page_indptr.push_back(batch.page_indptr[i] - first_page);
  }
  const std::span<const int32_t> last_page_len(batch.last_page_len);
  attention->prefill.Plan(
      ProblemOf(MaskMode::kCausal), View(prefill_qo_indptr),
      {View(prefill_page_indptr), page_indices.Slice(first_page, page_indices.shape(0)),
       View(last_page_len.subspan(num_decodes))},
      {}, Backend(), stream);
}

void Model::Impl::Attend(const StepBatch& batch, const Layer& layer, const PagedKvCache& cache,
                         const TensorView& hidden) {
  const ModelConfig& c = config;
  const int64_t num_tokens = batch.num_tokens();
  const TensorView in = normed.Rows(num_tokens);
  const TensorView heads = qkv.Rows(num_tokens);
  RmsNorm(hidden, layer.attention_norm.view(), in, {.eps = c.rms_eps}, stream);
  Linear(in, layer.qkv, heads, {.bias = layer.qkv_bias.view()}, stream);
  const TensorView q = Heads(heads, 0, c.num_qo_heads, c.head_dim);
  const TensorView k = Heads(heads, c.num_qo_heads, c.num_kv_heads, c.head_dim);
  const TensorView v = Heads(heads, c.num_qo_heads + c.num_kv_heads, c.num_kv_heads, c.head_dim);
  const NormOptions norm{.eps = c.rms_eps};
  if (!layer.query_norm.empty()) RmsNorm(q, layer.query_norm.view(), q, norm, stream);
  if (!layer.key_norm.empty()) RmsNorm(k, layer.key_norm.view(), k, norm, stream);
  ApplyRope(q, k, positions, q, k,
            {.style = c.rope.style,
             .rotary_dim = c.rope.rotary_dim,
             .rope_theta = c.rope.theta,
             .rope_scale = c.rope.scale,
             .frequency_factors = frequency_factors.view()},
            stream);
  AppendPagedKvCache(k, v, requests, positions, cache, Pages(batch), {}, stream);
  RunAttention(batch, q, cache, Heads(attended.Rows(num_tokens), 0, c.num_qo_heads, c.head_dim));
}

void Model::Impl::RunAttention(const StepBatch& batch, const TensorView& q,
                               const PagedKvCache& cache, const TensorView& out) {
  const int64_t num_tokens = batch.num_tokens();
  const int64_t num_decodes = batch.num_decodes;
  if (num_decodes > 0) {
    attention->decode.Run(q.Slice(0, num_decodes), cache, out.Slice(0, num_decodes), {}, {},
                          stream);
  }
  if (batch.num_requests() > num_decodes) {
    attention->prefill.Run(q.Slice(num_decodes, num_tokens), cache,
                           out.Slice(num_decodes, num_tokens), {}, {}, stream);
  }
}

void Model::Impl::FeedForward(const Layer& layer, const TensorView& hidden) {
  const int64_t num_tokens = hidden.shape(0);
  const TensorView in = normed.Rows(num_tokens);
  const TensorView both = gate_up.Rows(num_tokens);
  const TensorView product = activated.Rows(num_tokens);
  Linear(attended.Rows(num_tokens), layer.attention_output, hidden, {.residual = hidden}, stream);
  RmsNorm(hidden, layer.ffn_norm.view(), in, {.eps = config.rms_eps}, stream);
  Linear(in, layer.gate_up, both, {}, stream);
  SiluAndMul(both, product, {}, stream);
  Linear(product, layer.down, hidden, {.residual = hidden}, stream);
}

/// From the tokens to the logits, on tensors alone.
void Model::Impl::RunLayers(const StepBatch& batch) {
  const auto num_logits = static_cast<int64_t>(batch.logit_rows.size());
  TensorView hidden = x.Rows(batch.num_tokens());
  (embedding ? *embedding : output).GatherRows(token_ids, hidden, stream);
  for (size_t i = 0; i < layers.size(); ++i) {
    Attend(batch, layers[i], Cache(static_cast<int64_t>(i)), hidden);
    if (i + 1 == layers.size()) {
      // Behind the last attention, only rows whose logits are wanted matter.
      KeepRows(hidden, batch.logit_rows, stream);
      KeepRows(attended.Rows(batch.num_tokens()), batch.logit_rows, stream);
      hidden = x.Rows(num_logits);
    }
    if (num_logits > 0 || i + 1 < layers.size()) FeedForward(layers[i], hidden);
  }
  if (num_logits == 0) return;
  const TensorView in = normed.Rows(num_logits);
  RmsNorm(hidden, output_norm.view(), in, {.eps = config.rms_eps}, stream);
  Linear(in, output, logits.Rows(num_logits), {}, stream);
}

/// A step of decodes alone: the first of so many runs, the second is recorded, and from then on the
/// recording is launched.
void Model::Impl::RunRecorded(const StepBatch& batch) {
  StepAttention& a = *attention;
  const std::array<const void*, 5> lists{token_ids.data(), positions.data(), requests.data(),
                                         page_indptr.data(), page_indices.data()};
  if (a.lists != lists) {
    a.lists = lists;
    a.has_run = false;
    a.step.reset();
  }
  if (!a.has_run) {
    RunLayers(batch);
    a.has_run = true;
    return;
  }
  if (!a.step) a.step.emplace(stream, [&] { RunLayers(batch); });
  a.step->Launch(stream);
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

Stream Model::stream() const { return impl_->stream; }

TensorView Model::Forward(const StepBatch& batch) {
  Impl& m = *impl_;
  m.Plan(batch);
  if (m.attention == &m.any_step) {
    m.RunLayers(batch);
  } else {
    m.RunRecorded(batch);
  }
  return m.logits.Rows(static_cast<int64_t>(batch.logit_rows.size()));
}

TensorView Model::ForwardToHost(const StepBatch& batch) {
  const TensorView logits = Forward(batch);
  if (impl_->is_on_cpu()) return logits;
  const TensorView host = impl_->host_logits.Rows(logits.shape(0));
  Copy(logits, host, impl_->stream);
  return host;
}

}  // namespace flashinfer::engine
