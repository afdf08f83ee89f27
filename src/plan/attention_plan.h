// SPDX-License-Identifier: Apache-2.0
// How attention over a batch is cut into pieces of work: integers in, integers out.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/attention/prefill_plan_rules.h"

namespace flashinfer {

using kernels::AttentionPlanLimits;
using kernels::MaxPartials;

/// Query rows are packed: row r of a request and KV head is query head r % group_size of that KV
/// head's group, of token r / group_size. So one piece reads keys and values once for a group.
struct AttentionBatch {
  std::span<const int32_t> q_len;   ///< [num_requests]
  std::span<const int64_t> kv_len;  ///< [num_requests]
  int32_t num_kv_heads = 1;
  int32_t group_size = 1;
  bool causal = false;
  int32_t window_left = -1;  ///< keys left of its own position that a query sees; -1: all
};

/// Rows of one request and KV head times keys kv_begin to kv_end.
struct AttentionWork {
  int32_t request;
  int32_t kv_head;
  int64_t row_begin;
  int64_t row_end;
  int64_t kv_begin;
  int64_t kv_end;
  int64_t partial;  ///< where its partial result goes; -1: it writes the output itself
};

/// Partial results first_partial to first_partial + num_partials of the same rows, in key order.
struct AttentionMerge {
  int32_t request;
  int32_t kv_head;
  int64_t row_begin;
  int64_t row_end;
  int64_t first_partial;
  int32_t num_partials;
};

struct AttentionPlan {
  std::vector<AttentionWork> work;  ///< largest first
  std::vector<AttentionMerge> merges;
  int64_t num_partials = 0;

  /// Memory of the sort, kept for the next plan.
  struct Scratch {
    std::vector<std::pair<int64_t, int32_t>> order;  // cost, negative; place
    std::vector<AttentionWork> work;
  } scratch;
};

/// Every row meets every key that it may see exactly once (keys that no row of a tile sees are left
/// out, but for the begin of a window, which is rounded down to a multiple of kv_tile). Long pieces
/// are split among lanes as `limits` allow; what is split depends on the lengths alone, so equal
/// batches give equal results. Reuses the memory of `plan`.
void PlanAttention(const AttentionBatch& batch, const AttentionPlanLimits& limits,
                   AttentionPlan& plan);

}  // namespace flashinfer
