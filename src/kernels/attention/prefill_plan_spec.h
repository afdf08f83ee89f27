// SPDX-License-Identifier: Apache-2.0
// Plans of prefill and of latent attention that a kernel makes: what changes its code, and what
// changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/attention/prefill_plan_rules.h"
#include "kernels/attention/prefill_spec.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// One block plans.
struct PrefillPlanParams {
  const int32_t* qo_indptr;  // [num_requests + 1]; null: a token each
  const int32_t* indptr;     // [num_requests + 1], of pages
  const int32_t* lengths;    // [num_requests]: keys of the last page, or of all
  int64_t qo_indptr_stride;
  int64_t indptr_stride;
  int64_t lengths_stride;
  PrefillRequest* requests;  // [num_requests]
  PrefillPiece* pieces;      // [max_tiles + max_partials]: largest first, then empty ones
  PrefillPiece* unsorted;    // the same, on the way
  int64_t* sums;             // [max_tiles]
  AttentionPlanLimits limits;
  int32_t num_requests;
  int32_t max_tokens;
  int32_t max_tiles;  ///< of rows
  int32_t max_pages;  ///< in all
  int32_t page_size;
  int32_t group_size;
  int32_t window_left;
  bool causal;
  bool has_kv_len;  ///< lengths are those of all keys
};

/// Every field changes the machine code.
struct PrefillPlanSpec {
  using Params = PrefillPlanParams;
  static constexpr const char* kName = "prefill_plan.simt";
  static constexpr const char* kType = "PrefillPlanSpec";
  static constexpr const char* kHeader = "kernels/attention/prefill_plan_simt_sm75.cuh";
  static constexpr const char* kNamespace = "prefill_plan_simt";
  static constexpr int kMinArch = 75;

  int32_t block_threads = 256;
  int32_t max_requests = 256;

  friend constexpr bool operator==(const PrefillPlanSpec&, const PrefillPlanSpec&) = default;
};

template <FieldsOf<PrefillPlanSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(block_threads)
  FLASHINFER_NAMED(max_requests)
}

constexpr int32_t NumThreads(const PrefillPlanSpec& s) { return s.block_threads; }

/// Classes of costs, 8 an octave, that pieces are ordered by.
inline constexpr int32_t kCostClasses = 64;

/// Sums of requests and of warps, pieces of each class and warp, those already placed, and the
/// warps' largest costs.
constexpr int32_t SmemBytes(const PrefillPlanSpec& s) {
  return s.max_requests * 8 + 32 * 8 + kCostClasses * s.block_threads / 32 * (8 + 4) + 32 * 4;
}

/// For up to kMaxDevicePlanRequests requests.
constexpr PrefillPlanSpec MakePrefillPlanSpec(int32_t num_requests) {
  if (num_requests <= 256) return {.block_threads = 256, .max_requests = 256};
  return {.block_threads = 512, .max_requests = 4096};
}

/// Rows that an empty piece begins with: more than a request has.
inline constexpr int32_t kNoRow = 1 << 30;

/// Tiles of rows that any batch of so many requests and tokens has at most.
constexpr int64_t MaxRowTiles(int64_t num_requests, int64_t num_tokens, int32_t group_size,
                              int32_t rows_tile) {
  return num_tokens * group_size / rows_tile + num_requests;
}

}  // namespace flashinfer::kernels
