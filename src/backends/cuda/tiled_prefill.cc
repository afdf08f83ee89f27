// SPDX-License-Identifier: Apache-2.0
// Plans prefill, lays out its tables, and fills the parameters of a call.
#include "backends/cuda/tiled_prefill.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "backends/cuda/problem.h"
#include "cuda/launch.h"
#include "cuda/memory.h"

namespace flashinfer::cuda {
namespace {

using kernels::PrefillPiece;
using kernels::PrefillRequest;

PrefillGrid GridOf(const PrefillTiles& tiles, const AttentionProblem& p) {
  const int64_t num_tiles = int64_t{p.num_kv_heads} * tiles.vo_slices;
  const int64_t rows = num_tiles * tiles.rows;
  return {.rows_tile = tiles.rows,
          .kv_tile = tiles.kv,
          .num_tiles = num_tiles,
          .partial_bytes = static_cast<size_t>(rows * (tiles.vo_columns + 2) * 4),
          .fixed_kv_chunk = p.fixed_split_size};
}

/// Elements that rows of a tensor are aligned to, in bytes up to 16.
template <class... Strides>
int32_t AccessBytes(const TensorView& t, Strides... strides) {
  const auto element = static_cast<int32_t>(SizeBytes(t.dtype()));
  VectorSize size(16 / element);
  size.Pointer(t.data(), t.dtype());
  (size.Count(strides), ...);
  return size.value() * element;
}

int32_t CacheAccessBytes(const PagedKvCache& cache) {
  const auto of = [](const TensorView& t) {
    return AccessBytes(t, t.stride(0), t.stride(1), t.stride(2), t.shape(3));
  };
  return std::min(of(cache.k), of(cache.v));
}

kernels::DecodeHeadValues HeadValues(const TensorView& t) {
  if (!t.defined()) return {nullptr, 0};
  return {t.data_as<const float>(), t.stride(0)};
}

/// Turns per position of each pair, in 2^-64.
std::vector<uint64_t> TurnsOf(const AttentionProblem& p) {
  std::vector<uint64_t> turns;
  turns.reserve(static_cast<size_t>(p.head_dim_qk) / 2);
  for (int32_t k = 0; k < p.head_dim_qk / 2; ++k) {
    const double radians = std::pow(double{p.rope_theta}, -2.0 * k / p.head_dim_qk) / p.rope_scale;
    const double t = radians / (2 * std::numbers::pi);
    turns.push_back(static_cast<uint64_t>((t - std::floor(t)) * 0x1p64));
  }
  return turns;
}

}  // namespace

kernels::PrefillShape PrefillShapeOf(const AttentionProblem& p, int64_t rows) {
  return {.dtype_q = p.dtype_q,
          .dtype_kv = p.dtype_kv,
          .dtype_out = p.dtype_out,
          .head_dim_qk = p.head_dim_qk,
          .head_dim_vo = p.head_dim_vo,
          .rows = rows,
          .smem_bytes = BlockSmemBytes(p.arch)};
}

size_t PrefillWorkspaceBytes(const AttentionProblem& problem, const PrefillTiles& tiles) {
  return PrefillPartialBytes(GridOf(tiles, problem));
}

PrefillAccess AccessOf(const AttentionTensors& t) {
  return {.q = AccessBytes(t.q, t.q.stride(0), t.q.stride(1)),
          .kv = CacheAccessBytes(t.cache),
          .out = AccessBytes(t.out, t.out.stride(0), t.out.stride(1))};
}

void TiledPrefill::Plan(const AttentionProblem& problem, const AttentionTables& tables,
                        Workspace& workspace, Stream stream) {
  problem_ = problem;
  if (problem.sm_scale == 0) {
    problem_.sm_scale = 1.0f / std::sqrt(static_cast<float>(problem.head_dim_qk));
  }
  device_ = tables.device;
  pages_ = problem.page_size == kNoPages ? nullptr : tables.pages;
  pages_stride_ = tables.pages_stride;
  mask_ = tables.mask;
  const int64_t rows =
      tables.num_tokens() * problem.group_size() / std::max<int64_t>(1, tables.num_requests());
  PlanPieces(tables, Prepare(problem_, rows, device_, tiles_), workspace);
  Upload(tables, StreamOn(device_, stream));
}

void TiledPrefill::PlanPieces(const AttentionTables& tables, const Kernel& kernel,
                              Workspace& workspace) {
  const PrefillGrid grid = GridOf(tiles_, problem_);
  pieces_.Plan(tables,
               {.q_len = tables.q_len,
                .kv_len = tables.kv_len,
                .num_kv_heads = 1,
                .group_size = problem_.group_size(),
                .causal = IsCausal(problem_.mask),
                .window_left = problem_.window_left},
               grid, kernel, workspace.max_bytes());
  partial_bytes_ = static_cast<size_t>(pieces_.num_partials()) * grid.partial_bytes;
  workspace.Reserve(partial_bytes_);
  workspace_ = &workspace;
}

void TiledPrefill::Upload(const AttentionTables& tables, Stream stream) {
  staging_.Clear();
  requests_at_ = staging_.Add(pieces_.requests());
  pieces_at_ = staging_.Add(pieces_.pieces());
  counters_at_ = staging_.AddZeros(pieces_.num_merges() * static_cast<size_t>(num_tiles()) * 4);
  if (problem_.pos_encoding == PositionEncoding::kAlibi) {
    slopes_at_ = staging_.Add(AlibiSlopes(problem_.num_qo_heads));
  }
  if (problem_.variant != nullptr) lengths_at_ = staging_.Add(VariantLengths(tables));
  if (problem_.pos_encoding == PositionEncoding::kRopeLlama) {
    turns_at_ = staging_.Add(TurnsOf(problem_));
  }
  if (memory_ == nullptr || memory_->device() != device_) {
    memory_ = std::make_unique<Workspace>(device_);
  }
  block_ = static_cast<char*>(memory_->Reserve(staging_.bytes().size()));
  CopyToDevice(block_, staging_.bytes().data(), staging_.bytes().size(), stream);
}

void TiledPrefill::Run(const AttentionTensors& t, Stream stream) const {
  if (pieces_.pieces().empty()) return;
  const kernels::PrefillParams params = ParamsOf(t);
  const LaunchShape shape{.grid_x = static_cast<int64_t>(pieces_.pieces().size()),
                          .grid_y = num_tiles(),
                          .overlaps_previous = true};
  if (problem_.variant == nullptr) {
    Launch(KernelFor(t), shape, params, StreamOn(device_, stream));
    return;
  }
  Launch(KernelFor(t), shape,
         WithVariant(params, problem_, reinterpret_cast<const int32_t*>(block_ + lengths_at_),
                     static_cast<int64_t>(pieces_.requests().size()), t.extras.variant_values),
         StreamOn(device_, stream));
}

kernels::PrefillParams TiledPrefill::ParamsOf(const AttentionTensors& t) const {
  const AttentionProblem& p = problem_;
  const PageStrides k = StridesOf(t.cache.k, t.cache.layout);
  const PageStrides v = StridesOf(t.cache.v, t.cache.layout);
  const AttentionExtras& extras = t.extras;
  const bool has_lse = t.lse.defined();
  const TensorView& bias = extras.bias;
  const TensorView& items = mask_.token_pos_in_items;
  // Another plan may have made the workspace grow: it is asked each time where it is.
  char* partials = static_cast<char*>(workspace_->Reserve(partial_bytes_));
  const int64_t partial_rows = pieces_.num_partials() * num_tiles() * tiles_.rows;
  kernels::DecodeHeadValues slopes = HeadValues(extras.alibi_slopes);
  if (p.pos_encoding == PositionEncoding::kAlibi && slopes.data == nullptr) {
    slopes = {reinterpret_cast<const float*>(block_ + slopes_at_), 1};
  }
  return {.q = t.q.data(),
          .k = t.cache.k.data(),
          .v = t.cache.v.data(),
          .out = t.out.data(),
          .lse = has_lse ? t.lse.data_as<float>() : nullptr,
          .pages = pages_,
          .requests = reinterpret_cast<const PrefillRequest*>(block_ + requests_at_),
          .pieces = reinterpret_cast<const PrefillPiece*>(block_ + pieces_at_),
          .partial_o = reinterpret_cast<float*>(partials),
          .partial_ml = reinterpret_cast<float*>(partials) + partial_rows * tiles_.vo_columns,
          .counters = reinterpret_cast<uint32_t*>(block_ + counters_at_),
          .custom_mask = mask_.custom,
          .token_pos = items.defined() ? items.data_as<const int32_t>() : nullptr,
          .bias = p.has_bias ? bias.data() : nullptr,
          .sinks = HeadValues(p.has_sinks ? extras.sinks : TensorView()),
          .q_scales = HeadValues(extras.q_scales),
          .k_scales = HeadValues(extras.k_scales),
          .v_scales = HeadValues(extras.v_scales),
          .slopes = slopes,
          .turns = p.pos_encoding == PositionEncoding::kRopeLlama
                       ? reinterpret_cast<const uint64_t*>(block_ + turns_at_)
                       : nullptr,
          .q_stride_token = t.q.stride(0),
          .q_stride_head = t.q.stride(1),
          .out_stride_token = t.out.stride(0),
          .out_stride_head = t.out.stride(1),
          .lse_stride_token = has_lse ? t.lse.stride(0) : 0,
          .lse_stride_head = has_lse ? t.lse.stride(1) : 0,
          .pages_stride = pages_stride_,
          .token_pos_stride_request = items.defined() ? items.stride(0) : 0,
          .token_pos_stride_token = items.defined() ? items.stride(1) : 0,
          .bias_stride_head = p.has_bias && bias.shape(0) > 1 ? bias.stride(0) : 0,
          .bias_stride_token = p.has_bias ? bias.stride(1) : 0,
          .k_strides = {k.page, k.token, k.head},
          .v_strides = {v.page, v.token, v.head},
          .page_size = kernels::MakeDivisor(static_cast<uint32_t>(std::max(1, p.page_size))),
          .group_size = kernels::MakeDivisor(static_cast<uint32_t>(p.group_size())),
          .head_dim_qk = p.head_dim_qk,
          .head_dim_vo = p.head_dim_vo,
          .window_left = p.window_left,
          .sm_scale = LogitScale(p) * extras.q_scale * extras.k_scale,
          .v_scale = extras.v_scale,
          .soft_cap = p.logits_soft_cap,
          .causal = IsCausal(p.mask),
          .mask_is_packed = mask_.is_packed};
}

}  // namespace flashinfer::cuda
