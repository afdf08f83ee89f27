// SPDX-License-Identifier: Apache-2.0
// How decode over a batch is shared out among blocks of a GPU: integers in, integers out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/decode_spec.h"

namespace flashinfer {

using kernels::DecodePiece;

/// One query token a request. Every KV head does the same, so heads do not appear.
struct DecodeBatch {
  std::span<const int64_t> kv_len;      ///< [num_requests], each below 2^31
  std::span<const int64_t> page_begin;  ///< [num_requests], below 2^31
  int32_t window_left = -1;             ///< keys left of its own position; -1: all
};

struct DecodePlanLimits {
  int32_t num_slots = 1;       ///< blocks of a head that run at the same time
  int32_t slots_per_wave = 0;  ///< of these, one block a multiprocessor; 0: all
  int32_t kv_tile = 32;        ///< pieces that are cut off are multiples of it
  int32_t min_kv_chunk = 128;  ///< keys of a piece that is cut off at least
  /// Cuts are made every so many keys, whatever the batch; 0: as balance wants.
  int32_t fixed_kv_chunk = 0;
  int64_t max_partials = 0;  ///< pieces that may leave partial results; too few: nothing is cut
};

struct DecodePlan {
  std::vector<DecodePiece> pieces;  ///< in the order of requests and keys
  std::vector<int32_t> slot_begin;  ///< [num_slots + 1], into pieces
  int32_t num_partials = 0;
  int32_t num_merges = 0;  ///< requests of several pieces
};

/// Every key that a request sees is in exactly one piece; a request that sees none has one empty
/// piece. What is cut depends on the lengths alone, so equal batches give equal results. Allocates
/// only when a batch is larger than any before.
void PlanDecode(const DecodeBatch& batch, const DecodePlanLimits& limits, DecodePlan& plan);

}  // namespace flashinfer
