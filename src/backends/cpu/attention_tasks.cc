// SPDX-License-Identifier: Apache-2.0
// Makes tasks of a planned batch.
#include "backends/cpu/attention_tasks.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace flashinfer::cpu {
namespace {

const char* At(const TensorView& tensor, int64_t offset) {
  return tensor.data_as<const char>() + offset * SizeBytes(tensor.dtype());
}

PerHead HeadsFrom(const TensorView& tensor, int64_t head) {
  if (!tensor.defined()) return {nullptr, 0};
  return {tensor.data_as<const float>() + head * tensor.stride(0), tensor.stride(0)};
}

AttentionMaskRows MaskOf(MaskMode mode, const AttentionTables& tables, size_t request) {
  AttentionMaskRows rows{};
  rows.kv_len = tables.kv_len[request];
  const MaskTables& mask = tables.mask;
  if (mode == MaskMode::kCustom) {
    rows.custom = static_cast<const uint8_t*>(mask.custom) + mask.custom_begin[request];
    rows.is_packed = mask.is_packed;
  } else if (mode == MaskMode::kMultiItem) {
    const TensorView& pos = mask.token_pos_in_items;
    rows.token_pos = pos.data_as<const int32_t>() + static_cast<int64_t>(request) * pos.stride(0);
    rows.token_pos_stride = pos.stride(1);
    rows.prefix_len = mask.prefix_len[request];
  }
  return rows;
}

}  // namespace

void AttentionTasks::Plan(const AttentionProblem& problem, const AttentionTables& tables,
                          AttentionKind kind, int32_t heads_per_piece) {
  problem_ = problem;
  kind_ = kind;
  heads_per_piece_ = heads_per_piece;
  requests_.resize(tables.kv_len.size());
  for (size_t b = 0; b < requests_.size(); ++b) {
    requests_[b] = {tables.q_begin[b], tables.kv_begin[b], tables.kv_len[b] - tables.q_len[b],
                    MaskOf(problem.mask, tables, b)};
  }
  pages_ = tables.pages;
  pages_stride_ = tables.pages_stride;
  PlanPositions();
}

void AttentionTasks::PlanPositions() {
  slopes_.clear();
  turns_per_position_.clear();
  if (problem_.pos_encoding == PositionEncoding::kAlibi) {
    slopes_ = AlibiSlopes(problem_.num_qo_heads);
  }
  if (problem_.pos_encoding != PositionEncoding::kRopeLlama) return;
  const int32_t dim = problem_.head_dim_qk;
  turns_per_position_.reserve(static_cast<size_t>(dim) / 2);
  for (int32_t k = 0; k < dim / 2; ++k) {
    turns_per_position_.push_back(std::pow(double{problem_.rope_theta}, -2.0 * k / dim) /
                                  (double{problem_.rope_scale} * 2 * std::numbers::pi));
  }
}

AttentionTask AttentionTasks::TaskOf(const AttentionTensors& t, int32_t request,
                                     int32_t part) const {
  const Request& r = requests_[static_cast<size_t>(request)];
  const int64_t kv_head = int64_t{part} * heads_per_piece_;
  const int64_t head = kv_head * problem_.group_size();
  AttentionTask task{};
  task.num_kv_heads = heads_per_piece_;
  task.num_qo_heads = heads_per_piece_ * problem_.group_size();
  task.problem = &problem_;
  task.q = At(t.q, r.q_begin * t.q.stride(0) + head * t.q.stride(1));
  task.out = const_cast<char*>(At(t.out, r.q_begin * t.out.stride(0) + head * t.out.stride(1)));
  if (t.lse.defined()) {
    task.lse = t.lse.data_as<float>() + r.q_begin * t.lse.stride(0) + head * t.lse.stride(1);
    task.lse_stride_token = t.lse.stride(0);
    task.lse_stride_head = t.lse.stride(1);
  }
  task.q_stride_token = t.q.stride(0);
  task.q_stride_head = t.q.stride(1);
  task.out_stride_token = t.out.stride(0);
  task.out_stride_head = t.out.stride(1);
  SetKeys(t.cache, r, kv_head, task);
  task.position = r.position;
  task.is_decode = kind_ == AttentionKind::kDecode;
  task.mask = r.mask;
  SetExtras(t.extras, r, kv_head, task);
  return task;
}

void AttentionTasks::SetKeys(const PagedKvCache& cache, const Request& r, int64_t kv_head,
                             AttentionTask& task) const {
  static constexpr int32_t kOnlyPage = 0;
  const bool is_paged = problem_.page_size != kNoPages;
  const int64_t first_slot = is_paged ? 0 : r.kv_begin;
  task.k_strides = StridesOf(cache.k, cache.layout);
  task.v_strides = StridesOf(cache.v, cache.layout);
  task.k = At(cache.k, kv_head * task.k_strides.head + first_slot * task.k_strides.token);
  task.v = At(cache.v, kv_head * task.v_strides.head + first_slot * task.v_strides.token);
  task.pages = is_paged ? pages_ + r.kv_begin * pages_stride_ : &kOnlyPage;
  task.pages_stride = pages_stride_;
  task.page_size = is_paged ? problem_.page_size : std::numeric_limits<int64_t>::max();
}

void AttentionTasks::SetExtras(const AttentionExtras& x, const Request& r, int64_t kv_head,
                               AttentionTask& task) const {
  const int64_t head = kv_head * problem_.group_size();
  task.score_scale = problem_.sm_scale * x.q_scale * x.k_scale;
  task.value_scale = x.v_scale;
  task.q_scales = HeadsFrom(x.q_scales, head);
  task.k_scales = HeadsFrom(x.k_scales, kv_head);
  task.v_scales = HeadsFrom(x.v_scales, kv_head);
  task.sinks = HeadsFrom(x.sinks, head);
  task.slopes = HeadsFrom(x.alibi_slopes, head);
  if (!slopes_.empty() && task.slopes.data == nullptr) task.slopes = {slopes_.data() + head, 1};
  task.turns_per_position = turns_per_position_.data();
  if (!x.bias.defined()) return;
  const int64_t stride_head = x.bias.shape(0) == 1 ? 0 : x.bias.stride(0);
  task.bias = {At(x.bias, head * stride_head + r.q_begin * x.bias.stride(1)), x.bias.dtype(),
               stride_head, x.bias.stride(1)};
}

}  // namespace flashinfer::cpu
