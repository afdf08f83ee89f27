// SPDX-License-Identifier: Apache-2.0
// The attention plan: every row meets every key that it may see exactly once.
#include "plan/attention_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

namespace flashinfer {
namespace {

void CheckCoverage(const AttentionBatch& batch, const AttentionPlanLimits& limits) {
  AttentionPlan plan;
  PlanAttention(batch, limits, plan);
  RC_ASSERT(plan.num_partials <= limits.max_partials);
  // (request, head, row) -> keys covered so far, in key order.
  std::map<std::tuple<int32_t, int32_t, int64_t>, int64_t> covered;
  std::map<std::tuple<int32_t, int32_t, int64_t>, int64_t> first;
  std::vector<AttentionWork> work = plan.work;
  std::sort(work.begin(), work.end(),
            [](const auto& a, const auto& b) { return a.kv_begin < b.kv_begin; });
  std::vector<int> partial_uses(static_cast<size_t>(plan.num_partials), 0);
  for (const AttentionWork& w : work) {
    RC_ASSERT(w.row_end - w.row_begin <= limits.rows_tile);
    RC_ASSERT(w.row_begin < w.row_end);
    for (int64_t row = w.row_begin; row < w.row_end; ++row) {
      const auto [at, is_new] = covered.try_emplace({w.request, w.kv_head, row}, 0);
      RC_ASSERT(is_new || at->second == w.kv_begin);
      RC_ASSERT(w.kv_begin % limits.kv_tile == 0);
      if (is_new) first.emplace(at->first, w.kv_begin);
      at->second = w.kv_end;
    }
    if (w.partial >= 0) ++partial_uses[static_cast<size_t>(w.partial)];
  }
  for (int uses : partial_uses) RC_ASSERT(uses == 1);
  size_t num_rows = 0;
  for (size_t b = 0; b < batch.q_len.size(); ++b) {
    const int64_t rows = int64_t{batch.q_len[b]} * batch.group_size;
    num_rows += static_cast<size_t>(rows) * static_cast<size_t>(batch.num_kv_heads);
    for (int32_t head = 0; head < batch.num_kv_heads; ++head) {
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t token = row / batch.group_size;
        const int64_t n = batch.kv_len[b];
        const int64_t visible =
            batch.causal ? std::clamp<int64_t>(n - batch.q_len[b] + token + 1, 0, n) : n;
        const auto at = covered.find({static_cast<int32_t>(b), head, row});
        RC_ASSERT(at != covered.end());
        RC_ASSERT(at->second >= visible);
        RC_ASSERT(at->second <= n);
        const int64_t window_begin =
            batch.window_left < 0
                ? 0
                : std::clamp<int64_t>(n - batch.q_len[b] + token - batch.window_left, 0, visible);
        RC_ASSERT(first[at->first] <= window_begin);
        if (batch.window_left < 0) RC_ASSERT(first[at->first] == 0);
      }
    }
  }
  RC_ASSERT(covered.size() == num_rows);
  for (const AttentionMerge& m : plan.merges) RC_ASSERT(m.num_partials >= 2);
}

RC_GTEST_PROP(AttentionPlan, EveryRowMeetsEveryKeyOnce, ()) {
  const auto num_requests = *rc::gen::inRange<size_t>(0, 12);
  const auto q_len =
      *rc::gen::container<std::vector<int32_t>>(num_requests, rc::gen::inRange(0, 90));
  const auto kv_len = *rc::gen::container<std::vector<int64_t>>(
      num_requests,
      rc::gen::oneOf(rc::gen::inRange<int64_t>(0, 100), rc::gen::inRange<int64_t>(0, 20000)));
  AttentionBatch batch{q_len,
                       kv_len,
                       *rc::gen::inRange(1, 4),
                       *rc::gen::inRange(1, 10),
                       *rc::gen::arbitrary<bool>(),
                       *rc::gen::inRange(-1, 300)};
  const int32_t lanes = *rc::gen::inRange(1, 9);
  const int64_t most = MaxPartials(lanes);
  CheckCoverage(batch, {.rows_tile = *rc::gen::inRange(1, 100),
                        .num_lanes = lanes,
                        .min_kv_chunk = *rc::gen::inRange(1, 300),
                        .fixed_kv_chunk = 64 * *rc::gen::inRange(0, 4),
                        .num_slots = *rc::gen::inRange(0, 40),
                        .num_heads = *rc::gen::inRange(1, 9),
                        .max_partials = *rc::gen::inRange<int64_t>(0, most + 1)});
}

TEST(AttentionPlan, MaxPartialsIsNeverTheLimit) {
  // With room for MaxPartials() every tile that is long enough is split.
  for (int32_t lanes : {2, 3, 8}) {
    for (int64_t kv : {1000, 5000, 100000}) {
      for (int32_t requests : {1, 2, 3, 7, 40}) {
        const std::vector<int32_t> q(static_cast<size_t>(requests), 1);
        const std::vector<int64_t> kv_len(static_cast<size_t>(requests), kv);
        AttentionPlan limited;
        AttentionPlan unlimited;
        const AttentionBatch batch{q, kv_len, 3, 3, false, -1};
        PlanAttention(batch, {.num_lanes = lanes, .max_partials = MaxPartials(lanes)}, limited);
        PlanAttention(batch, {.num_lanes = lanes, .max_partials = 1 << 30}, unlimited);
        EXPECT_EQ(limited.num_partials, unlimited.num_partials);
      }
    }
  }
}

TEST(AttentionPlan, OneLongRequestFillsAllLanes) {
  const std::vector<int32_t> q{1};
  const std::vector<int64_t> kv{32768};
  AttentionPlan plan;
  PlanAttention({q, kv, 1, 8, false, -1}, {.num_lanes = 4, .max_partials = MaxPartials(4)}, plan);
  EXPECT_GE(plan.work.size(), 8u);
}

TEST(AttentionPlan, EqualTilesKeepAllSlotsBusy) {
  struct Batch {
    size_t num_requests;
    size_t num_pieces;
  };
  // 132 slots: pieces that start together end together, and few of them are left idle.
  for (const auto [num_requests, num_pieces] :
       {Batch{1, 16}, {2, 32}, {64, 128}, {100, 500}, {128, 128}, {132, 132}, {256, 256}}) {
    SCOPED_TRACE(num_requests);
    const std::vector<int32_t> q(num_requests, 1);
    const std::vector<int64_t> kv(num_requests, 4096);
    AttentionPlan plan;
    PlanAttention({q, kv, 1, 16, false, -1},
                  {.rows_tile = 16,
                   .kv_tile = 32,
                   .num_lanes = 33,
                   .min_kv_chunk = 256,
                   .num_slots = 132,
                   .max_partials = MaxPartials(33)},
                  plan);
    EXPECT_EQ(plan.work.size(), num_pieces);
  }
}

TEST(AttentionPlan, EqualTilesBehindTheLastFullTurnAreCut) {
  // Of 128 tiles and 8 heads, 115 fill 132 slots 7 times, all but a few; the others 4 times more.
  AttentionPlan plan;
  PlanAttention({std::vector<int32_t>{8192}, std::vector<int64_t>{8192}, 1, 4, false, -1},
                {.rows_tile = 256,
                 .kv_tile = 64,
                 .num_lanes = 4,
                 .min_kv_chunk = 256,
                 .num_slots = 132,
                 .num_heads = 8,
                 .max_partials = MaxPartials(4)},
                plan);
  EXPECT_EQ(plan.work.size(), 115u + 13 * 5);
  EXPECT_EQ(plan.work.back().row_begin, 127 * 256);
}

}  // namespace
}  // namespace flashinfer
