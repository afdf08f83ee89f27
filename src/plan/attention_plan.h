// SPDX-License-Identifier: Apache-2.0
// How attention over a batch is cut into pieces of work: integers in, integers out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flashinfer {

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

/// What the executor wants pieces to be like.
struct AttentionPlanLimits {
  int32_t rows_tile = 64;      ///< packed rows of a piece at most
  int32_t kv_tile = 64;        ///< pieces begin at multiples of it
  int32_t num_lanes = 1;       ///< pieces that run at the same time
  int32_t min_kv_chunk = 128;  ///< keys of a split piece at least
  /// Splits are made every so many keys, whatever the batch; 0: as balance wants. A tile whose
  /// splits do not fit into max_partials becomes one piece, which then folds them itself.
  int32_t fixed_kv_chunk = 0;
  int64_t max_partials = 0;  ///< pieces that may leave partial results; 0: no splitting
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
};

/// Partial results that a plan without limit on them may use.
int64_t MaxPartials(int32_t num_lanes);

/// Every row meets every key that it may see exactly once (keys that no row of a tile sees are left
/// out, but for the begin of a window, which is rounded down to a multiple of kv_tile). Long pieces
/// are split among lanes as `limits` allow; what is split depends on the lengths alone, so equal
/// batches give equal results. Reuses the memory of `plan`.
void PlanAttention(const AttentionBatch& batch, const AttentionPlanLimits& limits,
                   AttentionPlan& plan);

}  // namespace flashinfer
