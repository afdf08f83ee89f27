// SPDX-License-Identifier: Apache-2.0
// How decode over a batch is shared out among blocks of a GPU: integers in, integers out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/decode_plan_spec.h"

namespace flashinfer {

using kernels::DecodePiece;
using kernels::DecodePlanLimits;

/// One query token a request. Every KV head does the same, so heads do not appear.
struct DecodeBatch {
  std::span<const int64_t> kv_len;      ///< [num_requests], each below 2^31
  std::span<const int64_t> page_begin;  ///< [num_requests], below 2^31
  int32_t window_left = -1;             ///< keys left of its own position; -1: all
};

struct DecodePlan {
  std::vector<DecodePiece> pieces;  ///< in the order of requests and keys
  std::vector<int32_t> slot_begin;  ///< [num_slots + 1], into pieces
  int32_t num_partials = 0;
  int32_t num_merges = 0;  ///< requests of several pieces

  /// What is used on the way.
  struct Scratch {
    std::vector<kernels::DecodeSlotStart> slot_starts;
    std::vector<int32_t> cuts;
    std::vector<int64_t> sums;
    std::vector<int32_t> num_pieces;
  };
  Scratch scratch;
};

/// Every key that a request sees is in exactly one piece; a request that sees none has one empty
/// piece. What is cut depends on the lengths alone, so equal batches give equal results. Allocates
/// only when a batch is larger than any before.
void PlanDecode(const DecodeBatch& batch, const DecodePlanLimits& limits, DecodePlan& plan);

}  // namespace flashinfer
