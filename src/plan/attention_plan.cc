// SPDX-License-Identifier: Apache-2.0
// Cutting attention into pieces: tiles of rows, long ones split along the keys.
#include "plan/attention_plan.h"

#include <algorithm>

namespace flashinfer {
namespace {

kernels::AttentionKeys<int64_t> KeysOf(const AttentionWork& w) { return {w.kv_begin, w.kv_end}; }

int64_t Cost(const AttentionWork& w) {
  return kernels::AttentionCost(w.row_end - w.row_begin, w.kv_end - w.kv_begin);
}

/// Tiles of rows.
kernels::AttentionTotals AddTiles(const AttentionBatch& batch, const AttentionPlanLimits& limits,
                                  AttentionPlan& plan) {
  kernels::AttentionTotals totals;
  for (size_t b = 0; b < batch.q_len.size(); ++b) {
    const kernels::AttentionRows<int64_t> rows{batch.q_len[b], batch.kv_len[b], batch.group_size,
                                               batch.causal, batch.window_left};
    const int64_t num_rows = rows.num_rows();
    for (int32_t head = 0; head < batch.num_kv_heads; ++head) {
      for (int64_t begin = 0; begin < num_rows; begin += limits.rows_tile) {
        const int64_t end = std::min(begin + limits.rows_tile, num_rows);
        const auto keys = kernels::SeenKeys(rows, limits.kv_tile, begin, end);
        plan.work.push_back({static_cast<int32_t>(b), head, begin, end, keys.begin, keys.end, -1});
        const int64_t cost = Cost(plan.work.back());
        ++totals.num_tiles;
        totals.cost += cost;
        totals.largest = std::max(totals.largest, cost);
      }
    }
  }
  return totals;
}

/// Cuts a tile into so many pieces, the first in its place and the others behind all.
void Split(const AttentionPlanLimits& limits, size_t place, int64_t max_chunks,
           AttentionPlan& plan) {
  const AttentionWork tile = plan.work[place];
  const int64_t first = plan.num_partials;
  AttentionWork piece = tile;
  for (int64_t n = max_chunks; piece.kv_begin < tile.kv_end; --n) {
    piece.kv_end = kernels::ChunkEnd(limits, piece.kv_begin, tile.kv_end, n);
    piece.partial = plan.num_partials++;
    if (piece.partial == first) {
      plan.work[place] = piece;
    } else {
      plan.work.push_back(piece);
    }
    piece.kv_begin = piece.kv_end;
  }
  plan.merges.push_back({tile.request, tile.kv_head, tile.row_begin, tile.row_end, first,
                         static_cast<int32_t>(plan.num_partials - first)});
}

/// Largest first, and equal ones as they are.
void Sort(AttentionPlan& plan) {
  const std::vector<AttentionWork>& work = plan.work;
  const auto is_before = [](const AttentionWork& a, const AttentionWork& b) {
    return Cost(a) > Cost(b);
  };
  if (std::is_sorted(work.begin(), work.end(), is_before)) return;  // requests of one length
  AttentionPlan::Scratch& scratch = plan.scratch;
  scratch.order.resize(work.size());
  for (size_t i = 0; i < work.size(); ++i) {
    scratch.order[i] = {-Cost(work[i]), static_cast<int32_t>(i)};
  }
  std::sort(scratch.order.begin(), scratch.order.end());
  scratch.work.resize(work.size());
  for (size_t i = 0; i < work.size(); ++i) {
    scratch.work[i] = work[static_cast<size_t>(scratch.order[i].second)];
  }
  plan.work.swap(scratch.work);
}

}  // namespace

void PlanAttention(const AttentionBatch& batch, const AttentionPlanLimits& limits,
                   AttentionPlan& plan) {
  plan.work.clear();
  plan.merges.clear();
  plan.num_partials = 0;

  // Tiles of rows first; the splits follow from their total.
  const kernels::AttentionCut cut = kernels::CutOf(limits, AddTiles(batch, limits, plan));
  const size_t num_tiles = plan.work.size();
  for (size_t i = 0; i < num_tiles; ++i) {
    const auto keys = KeysOf(plan.work[i]);
    const int64_t max_chunks =
        kernels::MaxChunks(limits, keys, Cost(plan.work[i]), cut, static_cast<int64_t>(i));
    const int32_t num_chunks = kernels::NumChunks(limits, keys, max_chunks);
    if (num_chunks < 2) continue;
    if (plan.num_partials + num_chunks > limits.max_partials) break;
    Split(limits, i, max_chunks, plan);
  }
  Sort(plan);
}

}  // namespace flashinfer
