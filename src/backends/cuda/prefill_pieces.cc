// SPDX-License-Identifier: Apache-2.0
// Plans pieces of prefill.
#include "backends/cuda/prefill_pieces.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "jit/store.h"
#include "kernels/attention/decode_plan_spec.h"

namespace flashinfer::cuda {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;

/// Blocks that a plan counts with side by side: half as many pieces are enough where tiles of rows
/// alone do not fill the device.
int32_t NumLanes(int64_t resident, int64_t num_tiles) {
  const int64_t lanes = resident / num_tiles;
  return static_cast<int32_t>(lanes < 2 ? 1 : std::max<int64_t>(2, lanes / 4));
}

}  // namespace

int32_t BlockSmemBytes(int32_t arch) {
  switch (arch) {
    case 75:
      return 64 << 10;
    case 80:
    case 87:
      return 163 << 10;
    case 86:
    case 88:
    case 89:
    case 120:
    case 121:
      return 99 << 10;
    default:
      return 227 << 10;
  }
}

size_t PrefillPartialBytes(const PrefillGrid& grid) {
  // The largest devices have 192 multiprocessors; 16 blocks of a kind fit on each at most.
  const int64_t num_partials = MaxPartials(NumLanes(192 * 16, grid.num_tiles));
  return static_cast<size_t>(num_partials) * grid.partial_bytes;
}

size_t Staging::Add(const void* data, size_t size) {
  const size_t at = (bytes_.size() + 255) / 256 * 256;
  if (data == nullptr) {
    bytes_.resize(at + size);
    return at;
  }
  bytes_.resize(at);
  const char* const begin = static_cast<const char*>(data);
  bytes_.insert(bytes_.end(), begin, begin + size);
  return at;
}

AttentionPlanLimits PrefillPieces::LimitsOn(const PrefillGrid& grid, const Kernel& kernel,
                                            size_t workspace_bytes) const {
  const int64_t resident = int64_t{kernel.device->num_sms} * std::max(1, kernel.blocks_per_sm);
  const int32_t lanes = NumLanes(resident, grid.num_tiles);
  // Fewer splits where the workspace cannot hold their partial results.
  const auto room = static_cast<int64_t>(workspace_bytes / grid.partial_bytes);
  const int64_t most = grid.fixed_kv_chunk > 0 ? kMost : MaxPartials(lanes);
  return {.rows_tile = grid.rows_tile,
          .kv_tile = grid.kv_tile,
          .num_lanes = lanes,
          .min_kv_chunk = 256,
          .fixed_kv_chunk = grid.fixed_kv_chunk,
          .num_slots = static_cast<int32_t>(resident),
          .num_heads = static_cast<int32_t>(grid.num_tiles),
          .max_partials = std::min(most, room)};
}

void PrefillPieces::ReservePartials(const PrefillGrid& grid, int64_t num_partials,
                                    Workspace& workspace) {
  grid_ = grid;
  num_partials_ = num_partials;
  partial_bytes_ = static_cast<size_t>(num_partials) * grid.partial_bytes;
  workspace.Reserve(partial_bytes_);
  workspace_ = &workspace;
}

void PrefillPieces::Plan(const AttentionTables& tables, const PieceRows& rows,
                         const PrefillGrid& grid, const Kernel& kernel, Workspace& workspace) {
  planner_ = nullptr;
  ReadRequests(tables, rows.group_size);
  const AttentionPlanLimits limits = LimitsOn(grid, kernel, workspace.max_bytes());
  PlanAttention({.q_len = tables.q_len,
                 .kv_len = tables.kv_len,
                 .num_kv_heads = 1,
                 .group_size = rows.group_size,
                 .causal = rows.causal,
                 .window_left = rows.window_left},
                limits, plan_);
  ReservePartials(grid, grid.fixed_kv_chunk > 0 ? plan_.num_partials : limits.max_partials,
                  workspace);
  MakePieces();
  num_requests_ = tables.num_requests();
  num_pieces_ = static_cast<int64_t>(pieces_.size());
  staging_.Clear();
  requests_at_ = staging_.Add(requests_);
  pieces_at_ = staging_.Add(pieces_);
  counters_at_ = staging_.AddZeros(plan_.merges.size() * static_cast<size_t>(grid.num_tiles) * 4);
}

void PrefillPieces::PlanOnDevice(const DeviceLengths& lengths, const PieceRows& rows,
                                 const PrefillGrid& grid, const Kernel& kernel,
                                 Workspace& workspace) {
  const AttentionPlanLimits limits = LimitsOn(grid, kernel, workspace.max_bytes());
  ReservePartials(grid, limits.max_partials, workspace);
  num_requests_ = lengths.max_requests;
  const int64_t max_tiles =
      kernels::MaxRowTiles(num_requests_, lengths.max_tokens, rows.group_size, grid.rows_tile);
  num_pieces_ = max_tiles + limits.max_partials;
  const auto bytes_of = [](int64_t count, size_t size) {
    return static_cast<size_t>(count) * size;
  };
  staging_.Clear();
  // Empty pieces are of the first request, also where there is none.
  requests_at_ = staging_.AddZeros(
      bytes_of(std::max<int64_t>(1, num_requests_), sizeof(kernels::PrefillRequest)));
  pieces_at_ = staging_.AddZeros(bytes_of(num_pieces_, sizeof(kernels::PrefillPiece)));
  counters_at_ = staging_.AddZeros(bytes_of(limits.max_partials / 2 * grid.num_tiles, 4));
  unsorted_at_ = staging_.AddZeros(bytes_of(num_pieces_, sizeof(kernels::PrefillPiece)));
  sums_at_ = staging_.AddZeros(bytes_of(max_tiles, 8));
  planner_ =
      &jit::GetKernel(kernels::MakePrefillPlanSpec(lengths.max_requests), workspace.device());
  planner_params_ = {
      .qo_indptr = lengths.qo_indptr,
      .indptr = lengths.indptr,
      .lengths = lengths.last_page_len != nullptr ? lengths.last_page_len : lengths.kv_len,
      .qo_indptr_stride = lengths.qo_indptr_stride,
      .indptr_stride = lengths.indptr_stride,
      .lengths_stride = lengths.last_page_len_stride,
      .requests = nullptr,
      .pieces = nullptr,
      .unsorted = nullptr,
      .sums = nullptr,
      .limits = limits,
      .num_requests = lengths.max_requests,
      .max_tokens = static_cast<int32_t>(lengths.max_tokens),
      .max_tiles = static_cast<int32_t>(max_tiles),
      .max_pages = lengths.max_pages,
      .page_size = lengths.page_size,
      .group_size = rows.group_size,
      .window_left = rows.window_left,
      .causal = rows.causal,
      .has_kv_len = lengths.last_page_len == nullptr};
}

void PrefillPieces::Upload(Device device, Stream stream) {
  if (memory_ == nullptr || memory_->device() != device) {
    memory_ = std::make_unique<Workspace>(device);
  }
  block_ = static_cast<char*>(memory_->Reserve(staging_.bytes().size()));
  CopyToDevice(block_, staging_.bytes().data(), staging_.bytes().size(), stream);
  if (planner_ == nullptr) return;
  planner_params_.requests = reinterpret_cast<kernels::PrefillRequest*>(block_ + requests_at_);
  planner_params_.pieces = reinterpret_cast<kernels::PrefillPiece*>(block_ + pieces_at_);
  planner_params_.unsorted = reinterpret_cast<kernels::PrefillPiece*>(block_ + unsorted_at_);
  planner_params_.sums = reinterpret_cast<int64_t*>(block_ + sums_at_);
}

void PrefillPieces::Replan(Stream stream) const {
  // Counters are 0 between launches, whatever the plans, and prefill reads nothing before it waits
  // for the kernel ahead of it.
  if (num_pieces_ > 0) Launch(*planner_, {}, planner_params_, stream);
}

void PrefillPieces::SetTables(kernels::PrefillParams& params, int32_t num_columns) const {
  // Another plan may have made the workspace grow: it is asked each time where it is.
  auto* partials = static_cast<float*>(workspace_->Reserve(partial_bytes_));
  const int64_t partial_rows = num_partials_ * grid_.num_tiles * grid_.rows_tile;
  params.requests = At<kernels::PrefillRequest>(requests_at_);
  params.pieces = At<kernels::PrefillPiece>(pieces_at_);
  params.counters = reinterpret_cast<uint32_t*>(block_ + counters_at_);
  params.partial_o = partials;
  params.partial_ml = partials + partial_rows * num_columns;
}

void PrefillPieces::ReadRequests(const AttentionTables& tables, int32_t group_size) {
  requests_.clear();
  requests_.reserve(tables.kv_len.size());
  const MaskTables& mask = tables.mask;
  for (size_t b = 0; b < tables.kv_len.size(); ++b) {
    const int64_t rows = int64_t{tables.q_len[b]} * group_size;
    FLASHINFER_CHECK(tables.kv_len[b] <= kMost && tables.kv_begin[b] <= kMost && rows <= kMost &&
                         tables.q_begin[b] <= kMost,
                     "indptr[{}]: request has {} queries and {} keys from {} on, at most {} are "
                     "accepted, queries times heads of a group as well",
                     b, tables.q_len[b], tables.kv_len[b], tables.kv_begin[b], kMost);
    requests_.push_back({.mask_begin = mask.custom_begin.empty() ? 0 : mask.custom_begin[b],
                         .q_begin = static_cast<int32_t>(tables.q_begin[b]),
                         .q_len = tables.q_len[b],
                         .kv_len = static_cast<int32_t>(tables.kv_len[b]),
                         .page_begin = static_cast<int32_t>(tables.kv_begin[b]),
                         .prefix_len = mask.prefix_len.empty() ? 0 : mask.prefix_len[b],
                         .unused = 0});
  }
}

void PrefillPieces::MakePieces() {
  merge_of_.assign(static_cast<size_t>(plan_.num_partials), 0);
  for (size_t i = 0; i < plan_.merges.size(); ++i) {
    const AttentionMerge& merge = plan_.merges[i];
    std::fill_n(merge_of_.begin() + merge.first_partial, merge.num_partials,
                static_cast<int32_t>(i));
  }
  pieces_.clear();
  pieces_.reserve(plan_.work.size());
  for (const AttentionWork& work : plan_.work) {
    kernels::PrefillPiece piece{.request = work.request,
                                .row_begin = static_cast<int32_t>(work.row_begin),
                                .kv_begin = static_cast<int32_t>(work.kv_begin),
                                .kv_end = static_cast<int32_t>(work.kv_end),
                                .partial = static_cast<int32_t>(work.partial),
                                .first_partial = 0,
                                .num_partials = 0,
                                .merge = 0};
    if (work.partial >= 0) {
      piece.merge = merge_of_[static_cast<size_t>(work.partial)];
      const AttentionMerge& merge = plan_.merges[static_cast<size_t>(piece.merge)];
      piece.first_partial = static_cast<int32_t>(merge.first_partial);
      piece.num_partials = merge.num_partials;
    }
    pieces_.push_back(piece);
  }
}

void CheckDeviceLengths(const DeviceLengths& lengths, int32_t group_size,
                        int32_t fixed_split_size) {
  FLASHINFER_CHECK(lengths.max_requests <= kernels::kMaxDevicePlanRequests,
                   "indptr: has {} requests, a plan on the device takes at most {}",
                   lengths.max_requests, kernels::kMaxDevicePlanRequests);
  FLASHINFER_CHECK(lengths.max_tokens >= 0 && lengths.max_tokens * group_size <= kMost,
                   "max_tokens: is {}, times {} heads of a group at most {} are accepted",
                   lengths.max_tokens, group_size, kMost);
  FLASHINFER_CHECK(fixed_split_size == 0,
                   "fixed_split_size: is {}, a plan on the device takes 0: how many splits a batch "
                   "has is known only with its lengths",
                   fixed_split_size);
}

}  // namespace flashinfer::cuda
