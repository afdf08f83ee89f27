// SPDX-License-Identifier: Apache-2.0
// Plans of decode that a kernel makes: what changes its code, what changes per call, and what a
// plan may be like.
#pragma once

#include "core/field_list.h"
#include "kernels/attention/decode_spec.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

struct DecodePlanLimits {
  int32_t num_slots = 1;       ///< blocks of a head that run at the same time
  int32_t slots_per_wave = 0;  ///< of these, one block a multiprocessor; 0: all
  int32_t kv_tile = 32;        ///< a power of two; pieces that are cut off are multiples of it
  int32_t min_kv_chunk = 128;  ///< keys of a piece that is cut off at least
  /// Cuts are made every so many keys, whatever the batch; 0: as balance wants.
  int32_t fixed_kv_chunk = 0;
  int64_t max_partials = 0;  ///< pieces that may leave partial results; too few: nothing is cut
};

/// Where a slot begins: a request, and how many of its pieces are in slots before.
struct DecodeSlotStart {
  int32_t request;
  int32_t piece;
};

/// What a plan is written to, and what is used on the way.
struct DecodePlanMemory {
  DecodePiece* pieces;           // [num_pieces]: MaxDecodePieces() or more
  int32_t* slot_begin;           // [num_slots + 1]
  DecodeSlotStart* slot_starts;  // [num_slots]
  int32_t* cuts;                 // [num_slots]
  int64_t* sums;                 // [num_requests]
  int32_t* num_pieces;           // [num_requests]
};

/// One block plans. `memory.sums` and `memory.num_pieces` are not read: they are shared memory.
struct DecodePlanParams {
  const int32_t* indptr;         // [num_requests + 1]
  const int32_t* last_page_len;  // [num_requests]
  int64_t indptr_stride;
  int64_t last_page_len_stride;
  DecodeSlot* slots;  // [num_slots]
  DecodePlanMemory memory;
  DecodePlanLimits limits;
  int32_t num_requests;
  int32_t max_pages;  ///< in all
  int32_t page_size;
  int32_t window_left;
};

/// Every field changes the machine code.
struct DecodePlanSpec {
  using Params = DecodePlanParams;
  static constexpr const char* kName = "decode_plan.simt";
  static constexpr const char* kType = "DecodePlanSpec";
  static constexpr const char* kHeader = "kernels/attention/decode_plan_simt_sm75.cuh";
  static constexpr const char* kNamespace = "decode_plan_simt";
  static constexpr int kMinArch = 75;

  int32_t block_threads = 256;
  int32_t max_requests = 256;

  friend constexpr bool operator==(const DecodePlanSpec&, const DecodePlanSpec&) = default;
};

template <FieldsOf<DecodePlanSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(block_threads)
  FLASHINFER_NAMED(max_requests)
}

constexpr int32_t NumThreads(const DecodePlanSpec& s) { return s.block_threads; }

/// Sums and numbers of pieces of requests, sums of warps, and what the first warp found.
constexpr int32_t SmemBytes(const DecodePlanSpec& s) { return s.max_requests * 12 + 32 * 8 + 16; }

inline constexpr int32_t kMaxDevicePlanRequests = 4096;  ///< 49 KB of shared memory

/// For up to kMaxDevicePlanRequests requests.
constexpr DecodePlanSpec MakeDecodePlanSpec(int32_t num_requests) {
  if (num_requests <= 256) return {.block_threads = 256, .max_requests = 256};
  if (num_requests <= 1024) return {.block_threads = 1024, .max_requests = 1024};
  return {.block_threads = 1024, .max_requests = kMaxDevicePlanRequests};
}

}  // namespace flashinfer::kernels
