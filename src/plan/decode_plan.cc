// SPDX-License-Identifier: Apache-2.0
// Sharing decode out among slots: a walk over all keys that fills one slot after another.
#include "plan/decode_plan.h"

#include <algorithm>

namespace flashinfer {
namespace {

/// What a piece costs beside its keys, in keys: filling the copy ring, merging warps.
constexpr int64_t kPieceCost = 64;

enum class Cuts : uint8_t { kNone, kFixed, kBalanced };

/// Fills slots up to `capacity`, keys and pieces counted.
class Walk {
 public:
  Walk(const DecodeBatch& batch, const DecodePlanLimits& limits, Cuts cuts, DecodePlan& plan)
      : batch_(batch), limits_(limits), cuts_(cuts), plan_(plan) {}

  /// False when the batch needs more than `num_slots` slots.
  bool Run(int64_t capacity, int64_t num_slots) {
    plan_.pieces.clear();
    plan_.slot_begin.assign(1, 0);
    plan_.num_partials = 0;
    plan_.num_merges = 0;
    capacity_ = capacity;
    used_ = 0;
    for (size_t b = 0; b < batch_.kv_len.size(); ++b) AddRequest(b);
    if (static_cast<int64_t>(plan_.slot_begin.size()) > num_slots) return false;
    plan_.slot_begin.resize(static_cast<size_t>(limits_.num_slots) + 1,
                            static_cast<int32_t>(plan_.pieces.size()));
    return true;
  }

  /// Keys and pieces of the batch, uncut.
  int64_t TotalCost() const {
    int64_t total = 0;
    for (size_t b = 0; b < batch_.kv_len.size(); ++b) {
      total += batch_.kv_len[b] - FirstKey(b) + kPieceCost;
    }
    return total;
  }

 private:
  int64_t FirstKey(size_t request) const {
    if (batch_.window_left < 0) return 0;
    return std::max<int64_t>(0, batch_.kv_len[request] - 1 - batch_.window_left);
  }

  void NextSlot() {
    plan_.slot_begin.push_back(static_cast<int32_t>(plan_.pieces.size()));
    used_ = 0;
  }

  /// Keys of the next piece of a request that has `rest` left from `begin` on.
  int64_t NextLength(int64_t begin, int64_t rest) {
    if (cuts_ == Cuts::kFixed) {
      return std::min(rest, limits_.fixed_kv_chunk - begin % limits_.fixed_kv_chunk);
    }
    if (cuts_ == Cuts::kNone || rest + kPieceCost <= capacity_ - used_) return rest;
    int64_t room = capacity_ - used_ - kPieceCost;
    room -= room % limits_.kv_tile;
    if (room < limits_.min_kv_chunk) {
      if (used_ == 0) return rest;
      NextSlot();
      return NextLength(begin, rest);
    }
    // A rest that is not worth a piece stays with this one.
    return rest - room < limits_.min_kv_chunk / 2 ? rest : room;
  }

  void AddRequest(size_t b) {
    const size_t first_piece = plan_.pieces.size();
    const int64_t end = batch_.kv_len[b];
    int64_t begin = FirstKey(b);
    do {
      const int64_t length = NextLength(begin, end - begin);
      if (cuts_ != Cuts::kBalanced && used_ > 0 && used_ + length + kPieceCost > capacity_) {
        NextSlot();
      }
      plan_.pieces.push_back({.request = static_cast<int32_t>(b),
                              .page_begin = static_cast<int32_t>(batch_.page_begin[b]),
                              .kv_begin = static_cast<int32_t>(begin),
                              .kv_end = static_cast<int32_t>(begin + length),
                              .partial = -1,
                              .first_partial = 0,
                              .num_partials = 0,
                              .merge = 0});
      used_ += length + kPieceCost;
      begin += length;
      if (used_ >= capacity_) NextSlot();
    } while (begin < end);
    const auto num_pieces = static_cast<int32_t>(plan_.pieces.size() - first_piece);
    if (num_pieces < 2) return;
    for (size_t i = first_piece; i < plan_.pieces.size(); ++i) {
      DecodePiece& piece = plan_.pieces[i];
      piece.partial = plan_.num_partials + static_cast<int32_t>(i - first_piece);
      piece.first_partial = plan_.num_partials;
      piece.num_partials = num_pieces;
      piece.merge = plan_.num_merges;
    }
    plan_.num_partials += num_pieces;
    ++plan_.num_merges;
  }

  const DecodeBatch& batch_;
  const DecodePlanLimits& limits_;
  Cuts cuts_;
  DecodePlan& plan_;
  int64_t capacity_ = 0;
  int64_t used_ = 0;
};

/// Keys and cost of a slot from which on a multiprocessor does better with one block more: below,
/// merging more pieces takes what the others save. H200, 2026-11-30, 64 heads on 8 of 128 bf16,
/// one, two and three blocks: 8192 keys take 23.0, 22.9 and 25.9 µs, 32768 63, 53 and 53; 22 pieces
/// of 8192 keys, which leave some multiprocessors two and most one, 26.1.
constexpr int64_t kWorthABlock = 320;

/// Slots to use for a batch of `total` keys and cost: each multiprocessor has a block less as long
/// as there is too little for each slot, and a slot for each request.
int64_t NumUsedSlots(int64_t total, int64_t num_requests, const DecodePlanLimits& limits) {
  int64_t slots = limits.num_slots;
  const int64_t wave = limits.slots_per_wave > 0 ? limits.slots_per_wave : slots;
  while (slots > wave && total / slots < kWorthABlock) {
    const int64_t fewer = (slots - 1) / wave * wave;
    if (fewer < num_requests) break;
    slots = fewer;
  }
  return slots;
}

void RunWalk(const DecodeBatch& batch, const DecodePlanLimits& limits, Cuts cuts,
             DecodePlan& plan) {
  Walk walk(batch, limits, cuts, plan);
  const int64_t total = walk.TotalCost();
  const int64_t num_slots = NumUsedSlots(total, static_cast<int64_t>(batch.kv_len.size()), limits);
  // Balance alone would cut short batches into crumbs: 1000 keys in pieces of 128 take 11.3 µs, of
  // 64 12.2, of 32 14.8.
  int64_t capacity = std::max<int64_t>(total / num_slots + 1, limits.min_kv_chunk + kPieceCost);
  while (!walk.Run(capacity, num_slots)) capacity += capacity / 16 + 1;
}

}  // namespace

void PlanDecode(const DecodeBatch& batch, const DecodePlanLimits& limits, DecodePlan& plan) {
  if (limits.fixed_kv_chunk > 0) return RunWalk(batch, limits, Cuts::kFixed, plan);
  RunWalk(batch, limits, Cuts::kBalanced, plan);
  if (plan.num_partials > limits.max_partials) RunWalk(batch, limits, Cuts::kNone, plan);
}

}  // namespace flashinfer
