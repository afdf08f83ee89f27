// SPDX-License-Identifier: Apache-2.0
// Plans pieces of prefill.
#include "backends/cuda/prefill_pieces.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

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
  bytes_.resize(at + size);
  if (data != nullptr && size > 0) {
    std::copy_n(static_cast<const char*>(data), size, bytes_.begin() + static_cast<int64_t>(at));
  }
  return at;
}

void PrefillPieces::Plan(const AttentionTables& tables, const AttentionBatch& batch,
                         const PrefillGrid& grid, const Kernel& kernel, size_t workspace_bytes) {
  ReadRequests(tables, batch.group_size);
  const int64_t resident = int64_t{kernel.device->num_sms} * std::max(1, kernel.blocks_per_sm);
  const int32_t lanes = NumLanes(resident, grid.num_tiles);
  const bool is_fixed = grid.fixed_kv_chunk > 0;
  // Fewer splits where the workspace cannot hold their partial results.
  const auto room = static_cast<int64_t>(workspace_bytes / grid.partial_bytes);
  const int64_t max_partials = std::min(is_fixed ? kMost : MaxPartials(lanes), room);
  PlanAttention(batch,
                {.rows_tile = grid.rows_tile,
                 .kv_tile = grid.kv_tile,
                 .num_lanes = lanes,
                 .min_kv_chunk = 256,
                 .fixed_kv_chunk = grid.fixed_kv_chunk,
                 .max_partials = max_partials},
                plan_);
  num_partials_ = is_fixed ? plan_.num_partials : max_partials;
  MakePieces();
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

}  // namespace flashinfer::cuda
