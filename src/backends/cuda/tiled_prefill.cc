// SPDX-License-Identifier: Apache-2.0
// Plans prefill, lays out its tables, and fills the parameters of a call.
#include "backends/cuda/tiled_prefill.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "backends/cuda/problem.h"
#include "core/check.h"
#include "cuda/launch.h"

namespace flashinfer::cuda {
namespace {

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

RowAccess AccessOf(const AttentionTensors& t) {
  return {.q = AccessBytes(t.q, t.q.stride(0), t.q.stride(1)),
          .kv = CacheAccessBytes(t.cache),
          .out = AccessBytes(t.out, t.out.stride(0), t.out.stride(1))};
}

const Kernel& TiledPrefill::Keep(const AttentionProblem& problem, const AttentionTables& tables) {
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
  return Prepare(problem_, rows, device_, tiles_);
}

PieceRows TiledPrefill::rows() const {
  return {problem_.group_size(), IsCausal(problem_.mask), problem_.window_left};
}

void TiledPrefill::Plan(const AttentionProblem& problem, const AttentionTables& tables,
                        Workspace& workspace, Stream stream) {
  const Kernel& kernel = Keep(problem, tables);
  pieces_.Plan(tables, rows(), GridOf(tiles_, problem_), kernel, workspace);
  if (problem_.variant != nullptr) lengths_at_ = pieces_.Add(VariantLengths(tables));
  Upload(stream);
}

void TiledPrefill::PlanOnDevice(const AttentionProblem& problem, const AttentionTables& tables,
                                const DeviceLengths& lengths, Workspace& workspace, Stream stream) {
  CheckDeviceLengths(lengths, problem.group_size(), problem.fixed_split_size);
  FLASHINFER_CHECK(problem.mask == MaskMode::kNone || problem.mask == MaskMode::kCausal,
                   "mask: is {}, a plan on the device takes none and causal", Name(problem.mask));
  FLASHINFER_CHECK(!problem.has_bias, "has_bias: is 1, a plan on the device takes 0");
  FLASHINFER_CHECK(problem.variant == nullptr, "variant: is {}, a plan on the device takes none",
                   problem.variant->name());
  const Kernel& kernel = Keep(problem, tables);
  pieces_.PlanOnDevice(lengths, rows(), GridOf(tiles_, problem_), kernel, workspace);
  Upload(stream);
}

void TiledPrefill::Replan(Stream stream) const { pieces_.Replan(StreamOn(device_, stream)); }

void TiledPrefill::Upload(Stream stream) {
  if (problem_.pos_encoding == PositionEncoding::kAlibi) {
    slopes_at_ = pieces_.Add(AlibiSlopes(problem_.num_qo_heads));
  }
  if (problem_.pos_encoding == PositionEncoding::kRopeLlama) {
    turns_at_ = pieces_.Add(TurnsOf(problem_));
  }
  pieces_.Upload(device_, StreamOn(device_, stream));
}

void TiledPrefill::Run(const AttentionTensors& t, Stream stream) const {
  if (pieces_.num_pieces() == 0) return;
  const kernels::PrefillParams params = ParamsOf(t);
  const LaunchShape shape{
      .grid_x = pieces_.num_pieces(), .grid_y = num_tiles(), .overlaps_previous = true};
  if (problem_.variant == nullptr) {
    Launch(KernelFor(t), shape, params, StreamOn(device_, stream));
    return;
  }
  Launch(KernelFor(t), shape,
         WithVariant(params, problem_, pieces_.At<int32_t>(lengths_at_), pieces_.num_requests(),
                     t.extras.variant_values),
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
  kernels::DecodeHeadValues slopes = HeadValues(extras.alibi_slopes);
  if (p.pos_encoding == PositionEncoding::kAlibi && slopes.data == nullptr) {
    slopes = {pieces_.At<float>(slopes_at_), 1};
  }
  kernels::PrefillParams params{
      .q = t.q.data(),
      .k = t.cache.k.data(),
      .v = t.cache.v.data(),
      .out = t.out.data(),
      .lse = has_lse ? t.lse.data_as<float>() : nullptr,
      .pages = pages_,
      .requests = nullptr,
      .pieces = nullptr,
      .partial_o = nullptr,
      .partial_ml = nullptr,
      .counters = nullptr,
      .custom_mask = mask_.custom,
      .token_pos = items.defined() ? items.data_as<const int32_t>() : nullptr,
      .bias = p.has_bias ? bias.data() : nullptr,
      .sinks = HeadValues(p.has_sinks ? extras.sinks : TensorView()),
      .q_scales = HeadValues(extras.q_scales),
      .k_scales = HeadValues(extras.k_scales),
      .v_scales = HeadValues(extras.v_scales),
      .slopes = slopes,
      .turns = p.pos_encoding == PositionEncoding::kRopeLlama ? pieces_.At<uint64_t>(turns_at_)
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
  pieces_.SetTables(params, tiles_.vo_columns);
  return params;
}

}  // namespace flashinfer::cuda
