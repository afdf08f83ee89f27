// SPDX-License-Identifier: Apache-2.0
// Cutting attention into pieces: tiles of rows, long ones split along the keys.
#include "plan/attention_plan.h"

#include <algorithm>

namespace flashinfer {
namespace {

/// Pieces per lane that a batch is cut into where it is cut at all: enough that the last one to
/// finish does not keep the others waiting for long.
constexpr int64_t kPiecesPerLane = 4;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Keys that any of the rows up to row_end may see.
int64_t VisibleKeys(const AttentionBatch& batch, size_t request, int64_t row_end) {
  const int64_t kv_len = batch.kv_len[request];
  if (!batch.causal) return kv_len;
  const int64_t last_token = (row_end - 1) / batch.group_size;
  return std::clamp<int64_t>(kv_len - batch.q_len[request] + last_token + 1, 0, kv_len);
}

int64_t Cost(int64_t num_rows, int64_t num_keys) { return num_rows * num_keys; }

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
        plan.work.push_back({static_cast<int32_t>(b), head, begin, end, 0, keys, -1});
        total += Cost(end - begin, keys);
      }
    }
  }
  const int64_t target = std::max<int64_t>(1, total / (kPiecesPerLane * limits.num_lanes));
  const size_t num_tiles = plan.work.size();
  for (size_t i = 0; i < num_tiles; ++i) {
    const AttentionWork tile = plan.work[i];
    const int64_t cost = Cost(tile.row_end - tile.row_begin, tile.kv_end);
    const int64_t num_pieces =
        std::min(CeilDiv(cost, target), tile.kv_end / std::max(1, limits.min_kv_chunk));
    if (cost <= target || num_pieces < 2) continue;
    if (plan.num_partials + num_pieces > limits.max_partials) continue;
    const int64_t chunk = CeilDiv(tile.kv_end, num_pieces);
    const int64_t first = plan.num_partials;
    for (int64_t begin = 0; begin < tile.kv_end; begin += chunk) {
      AttentionWork piece = tile;
      piece.kv_begin = begin;
      piece.kv_end = std::min(begin + chunk, tile.kv_end);
      piece.partial = plan.num_partials++;
      if (begin == 0) {
        plan.work[i] = piece;
      } else {
        plan.work.push_back(piece);
      }
    }
    plan.merges.push_back({tile.request, tile.kv_head, tile.row_begin, tile.row_end, first,
                           static_cast<int32_t>(plan.num_partials - first)});
  }
  std::stable_sort(plan.work.begin(), plan.work.end(),
                   [](const AttentionWork& a, const AttentionWork& b) {
                     return Cost(a.row_end - a.row_begin, a.kv_end - a.kv_begin) >
                            Cost(b.row_end - b.row_begin, b.kv_end - b.kv_begin);
                   });
}

}  // namespace flashinfer
