// SPDX-License-Identifier: Apache-2.0
// Cutting attention into pieces: tiles of rows, long ones split along the keys.
#include "plan/attention_plan.h"

#include <algorithm>

namespace flashinfer {
namespace {

/// Pieces per lane that a batch is cut into where it is cut at all: enough that the last one to
/// finish does not keep the others waiting for long.
constexpr int64_t kPiecesPerLane = 8;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Keys that any of the rows up to row_end may see.
int64_t VisibleKeys(const AttentionBatch& batch, size_t request, int64_t row_end) {
  const int64_t kv_len = batch.kv_len[request];
  if (!batch.causal) return kv_len;
  const int64_t last_token = (row_end - 1) / batch.group_size;
  return std::clamp<int64_t>(kv_len - batch.q_len[request] + last_token + 1, 0, kv_len);
}

/// The first key that any of the rows from row_begin on may see, rounded down to a tile.
int64_t FirstKey(const AttentionBatch& batch, const AttentionPlanLimits& limits, size_t request,
                 int64_t row_begin, int64_t end) {
  if (batch.window_left < 0) return 0;
  const int64_t position =
      batch.kv_len[request] - batch.q_len[request] + row_begin / batch.group_size;
  const int64_t first = std::clamp<int64_t>(position - batch.window_left, 0, end);
  return first - first % limits.kv_tile;
}

/// Time of a piece: reading a key costs as much as multiplying it with this many rows.
constexpr int64_t kRowsOfReading = 8;

int64_t Cost(const AttentionWork& w) {
  return (kRowsOfReading + w.row_end - w.row_begin) * (w.kv_end - w.kv_begin);
}

/// Pieces that a tile is cut into, at most; 1: none.
int64_t NumChunks(const AttentionPlanLimits& limits, const AttentionWork& tile, int64_t target) {
  const int64_t num_keys = tile.kv_end - tile.kv_begin;
  if (const int64_t size = limits.fixed_kv_chunk; size > 0) {
    return CeilDiv(tile.kv_end, size) - tile.kv_begin / size;
  }
  if (num_keys <= limits.kv_tile) return 1;
  return std::min(CeilDiv(Cost(tile), target), num_keys / std::max(1, limits.min_kv_chunk));
}

/// Where the piece from key `begin` on ends, with so many that are left. Pieces become smaller
/// until each lane's share of the rest is one: large ones run without interruption, and small ones
/// at the end let all lanes finish together.
int64_t ChunkEnd(const AttentionPlanLimits& limits, int64_t begin, int64_t end,
                 int64_t num_chunks_left) {
  if (const int64_t size = limits.fixed_kv_chunk; size > 0) {
    return std::min(end, (begin / size + 1) * size);
  }
  const int64_t share =
      CeilDiv(end - begin, std::min(num_chunks_left, int64_t{2} * limits.num_lanes));
  const int64_t size = std::max<int64_t>(share, limits.min_kv_chunk);
  return std::min(end, begin + CeilDiv(size, limits.kv_tile) * limits.kv_tile);
}

}  // namespace

int64_t MaxPartials(int32_t num_lanes) {
  // A tile of cost c is split into n <= c / target + 1 pieces, and n >= 2 means c > target, so
  // all n together are below twice the total over the target.
  return num_lanes == 1 ? 0 : 2 * kPiecesPerLane * num_lanes;
}

void PlanAttention(const AttentionBatch& batch, const AttentionPlanLimits& limits,
                   AttentionPlan& plan) {
  plan.work.clear();
  plan.merges.clear();
  plan.num_partials = 0;

  // Tiles of rows first; the splits follow from their total.
  int64_t total = 0;
  for (size_t b = 0; b < batch.q_len.size(); ++b) {
    const int64_t num_rows = int64_t{batch.q_len[b]} * batch.group_size;
    for (int32_t head = 0; head < batch.num_kv_heads; ++head) {
      for (int64_t begin = 0; begin < num_rows; begin += limits.rows_tile) {
        const int64_t end = std::min(begin + limits.rows_tile, num_rows);
        const int64_t keys = VisibleKeys(batch, b, end);
        const int64_t first = FirstKey(batch, limits, b, begin, keys);
        plan.work.push_back({static_cast<int32_t>(b), head, begin, end, first, keys, -1});
        total += Cost(plan.work.back());
      }
    }
  }
  const int64_t target = std::max<int64_t>(1, total / (kPiecesPerLane * limits.num_lanes));
  const size_t num_tiles = plan.work.size();
  for (size_t i = 0; i < num_tiles; ++i) {
    const AttentionWork tile = plan.work[i];
    const int64_t num_chunks = NumChunks(limits, tile, target);
    if (num_chunks < 2 || plan.num_partials + num_chunks > limits.max_partials) continue;
    const int64_t first = plan.num_partials;
    AttentionWork piece = tile;
    for (int64_t n = num_chunks; piece.kv_begin < tile.kv_end; --n) {
      piece.kv_end = ChunkEnd(limits, piece.kv_begin, tile.kv_end, n);
      piece.partial = plan.num_partials++;
      if (piece.partial == first) {
        plan.work[i] = piece;
      } else {
        plan.work.push_back(piece);
      }
      piece.kv_begin = piece.kv_end;
    }
    plan.merges.push_back({tile.request, tile.kv_head, tile.row_begin, tile.row_end, first,
                           static_cast<int32_t>(plan.num_partials - first)});
  }
  std::stable_sort(
      plan.work.begin(), plan.work.end(),
      [](const AttentionWork& a, const AttentionWork& b) { return Cost(a) > Cost(b); });
}

}  // namespace flashinfer
