// SPDX-License-Identifier: Apache-2.0
// Sharing decode out among slots, for one thread of the host and a block of a GPU alike: a walk
// over all keys that fills one slot after another.
#pragma once

#include "kernels/attention/decode_plan_spec.h"
#include "kernels/attention/decode_spec.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// What a piece costs beside its keys, in keys: filling the copy ring, merging warps.
inline constexpr int64_t kDecodePieceCost = 64;

/// Keys and cost of a slot from which on a multiprocessor does better with one block more: below,
/// merging more pieces takes what the others save. H200, 2026-11-30, 64 heads on 8 of 128 bf16,
/// one, two and three blocks: 8192 keys take 23.0, 22.9 and 25.9 µs, 32768 63, 53 and 53; 22 pieces
/// of 8192 keys, which leave some multiprocessors two and most one, 26.1.
inline constexpr int64_t kWorthADecodeBlock = 320;

enum class DecodeCuts : uint8_t { kNone, kFixed, kBalanced };

struct DecodePlanSizes {
  int32_t num_pieces;
  int32_t num_partials;
  int32_t num_merges;  ///< requests of several pieces
};

/// What a walk found.
struct DecodeWalk {
  bool fits;          ///< into the slots; nothing else is set where not
  int32_t num_slots;  ///< that begin with a piece, or behind the last
  int32_t num_cuts;
  int32_t num_cut_requests;
};

/// The first of `kv_len` keys that the last token sees.
constexpr int64_t FirstDecodeKey(int64_t kv_len, int32_t window_left) {
  const int64_t first = kv_len - 1 - window_left;
  return window_left < 0 || first < 0 ? 0 : first;
}

/// Pieces of keys first to kv_len that are cut every `chunk` keys; 1 where there are none.
constexpr int32_t NumFixedDecodePieces(int64_t first, int64_t kv_len, int32_t chunk) {
  if (first >= kv_len) return 1;
  return (static_cast<int32_t>(kv_len) - 1) / chunk - static_cast<int32_t>(first) / chunk + 1;
}

/// Pieces of any batch of so many requests, which list `num_keys` keys together.
constexpr int64_t MaxDecodePieces(const DecodePlanLimits& limits, int64_t num_requests,
                                  int64_t num_keys) {
  if (limits.fixed_kv_chunk == 0) return num_requests + limits.num_slots;
  return num_requests + num_keys / limits.fixed_kv_chunk;
}

/// Slots to use for a batch of `total` keys and cost: each multiprocessor has a block less as long
/// as there is too little for each slot, and a slot for each request.
constexpr int32_t NumUsedDecodeSlots(int64_t total, int32_t num_requests,
                                     const DecodePlanLimits& limits) {
  int32_t slots = limits.num_slots;
  const int32_t wave = limits.slots_per_wave > 0 ? limits.slots_per_wave : slots;
  while (slots > wave && total < kWorthADecodeBlock * slots) {
    const int32_t fewer = (slots - 1) / wave * wave;
    if (fewer < num_requests) break;
    slots = fewer;
  }
  return slots;
}

/// The next piece of a request.
struct DecodeCut {
  int64_t length;
  bool begins_slot;
};

/// Of a request that has `rest` keys left from `begin` on (which only fixed cuts read), in a slot
/// of which `used` is taken.
constexpr DecodeCut NextDecodeCut(const DecodePlanLimits& limits, DecodeCuts cuts, int64_t capacity,
                                  int64_t used, int64_t begin, int64_t rest) {
  if (cuts == DecodeCuts::kBalanced) {
    if (rest + kDecodePieceCost <= capacity - used) return {rest, false};
    const int64_t tiles = -int64_t{limits.kv_tile};
    int64_t room = (capacity - used - kDecodePieceCost) & tiles;
    const bool begins_slot = room < limits.min_kv_chunk && used > 0;
    if (begins_slot) {
      if (rest + kDecodePieceCost <= capacity) return {rest, true};
      room = (capacity - kDecodePieceCost) & tiles;
    }
    // A rest that is not worth a piece stays with this one.
    const bool is_last = room < limits.min_kv_chunk || rest - room < limits.min_kv_chunk / 2;
    return {is_last ? rest : room, begins_slot};
  }
  int64_t length = rest;
  if (cuts == DecodeCuts::kFixed) {
    const int64_t chunk =
        limits.fixed_kv_chunk - static_cast<int32_t>(begin) % limits.fixed_kv_chunk;
    if (chunk < rest) length = chunk;
  }
  return {length, used > 0 && used + length + kDecodePieceCost > capacity};
}

/// Makes a plan. `Batch` has num_requests, window_left, KvLen(b) and PageBegin(b). `Threads` are
/// those that call Run() together:
///
///   ForEach(n, f)        f(0) to f(n - 1), each by one of them
///   Sync()               they wait for each other
///   Scan(x, n)           adds to each of x[0] to x[n - 1] those before it; gives the sum; ends
///   with
///                        Sync()
///   Once(f)              what f() gives, called by as few of them as can do NumThatFit() together;
///                        ends with Sync()
///   NumThatFit(x, n, base, room)   of rising x[0] to x[n - 1]: those up to base + room
///   IsFirst()            whether to write what all of those in Once() know
template <class Threads, class Batch>
class DecodePlanner {
 public:
  DecodePlanner(Threads& threads, const Batch& batch, const DecodePlanLimits& limits,
                const DecodePlanMemory& memory)
      : threads_(threads), batch_(batch), limits_(limits), m_(memory) {}

  DecodePlanSizes Run() {
    cuts_ = DecodeCuts::kBalanced;
    const int64_t total = SumCosts();
    if (limits_.fixed_kv_chunk > 0) {
      cuts_ = DecodeCuts::kFixed;
      SumCosts();
    }
    DecodeWalk walk = FindWalk(total);
    if (cuts_ == DecodeCuts::kBalanced &&
        walk.num_cuts + walk.num_cut_requests > limits_.max_partials) {
      cuts_ = DecodeCuts::kNone;
      ForgetCuts();
      walk = FindWalk(total);
    }
    return Write(walk);
  }

 private:
  int64_t FirstKey(int32_t b) const { return FirstDecodeKey(batch_.KvLen(b), batch_.window_left); }
  int64_t SumBefore(int32_t b) const { return b == 0 ? 0 : m_.sums[b - 1]; }

  /// Keys and pieces of requests, summed up; whole requests but for fixed cuts.
  int64_t SumCosts() {
    threads_.ForEach(batch_.num_requests, [&](int32_t b) {
      const int64_t kv_len = batch_.KvLen(b);
      const int64_t first = FirstDecodeKey(kv_len, batch_.window_left);
      const int32_t num_pieces = cuts_ == DecodeCuts::kFixed
                                     ? NumFixedDecodePieces(first, kv_len, limits_.fixed_kv_chunk)
                                     : 1;
      m_.num_pieces[b] = num_pieces;
      m_.sums[b] = kv_len - first + num_pieces * kDecodePieceCost;
    });
    threads_.Sync();
    return threads_.Scan(m_.sums, batch_.num_requests);
  }

  DecodeWalk FindWalk(int64_t total) {
    const int32_t num_slots = NumUsedDecodeSlots(total, batch_.num_requests, limits_);
    // Balance alone would cut short batches into crumbs: 1000 keys in pieces of 128 take 11.3 µs,
    // of 64 12.2, of 32 14.8.
    const int64_t least = limits_.min_kv_chunk + kDecodePieceCost;
    int64_t capacity = total / num_slots + 1;
    if (capacity < least) capacity = least;
    for (;; capacity += capacity / 16 + 1) {
      const DecodeWalk walk = threads_.Once([&] { return Walk(capacity, num_slots); });
      if (walk.fits) return walk;
      if (cuts_ != DecodeCuts::kFixed) ForgetCuts();
    }
  }

  void ForgetCuts() {
    threads_.ForEach(batch_.num_requests, [&](int32_t b) { m_.num_pieces[b] = 1; });
    threads_.Sync();
  }

  /// Fills slots up to `capacity`, keys and pieces counted.
  DecodeWalk Walk(int64_t capacity, int32_t num_slots) {
    DecodeWalk walk{.fits = true, .num_slots = 0, .num_cuts = 0, .num_cut_requests = 0};
    int64_t used = 0;
    const auto begin_slot = [&](int32_t request, int32_t piece) {
      used = 0;
      walk.fits = walk.num_slots < num_slots;
      if (walk.fits && threads_.IsFirst()) m_.slot_starts[walk.num_slots] = {request, piece};
      ++walk.num_slots;
    };
    begin_slot(0, 0);
    for (int32_t b = 0; b < batch_.num_requests && walk.fits;) {
      const int64_t before = SumBefore(b);
      const int32_t num_whole =
          threads_.NumThatFit(m_.sums + b, batch_.num_requests - b, before, capacity - used);
      if (num_whole > 0) {
        b += num_whole;
        used += m_.sums[b - 1] - before;
        if (used >= capacity) begin_slot(b, 0);
        continue;
      }
      WalkRequest(b, m_.sums[b] - before, capacity, used, walk, begin_slot);
      ++b;
    }
    return walk;
  }

  /// A request that does not fit into the slot as a whole.
  template <class BeginSlot>
  void WalkRequest(int32_t b, int64_t cost, int64_t capacity, int64_t& used, DecodeWalk& walk,
                   BeginSlot begin_slot) {
    const bool is_fixed = cuts_ == DecodeCuts::kFixed;
    int64_t rest = cost - (is_fixed ? m_.num_pieces[b] : 1) * kDecodePieceCost;
    const int64_t end = is_fixed ? batch_.KvLen(b) : 0;
    int32_t piece = 0;
    do {
      const DecodeCut cut = NextDecodeCut(limits_, cuts_, capacity, used, end - rest, rest);
      if (cut.begins_slot) begin_slot(b, piece);
      used += cut.length + kDecodePieceCost;
      rest -= cut.length;
      ++piece;
      // A piece that is cut off fills its slot: there are no more than slots.
      if (rest > 0 && !is_fixed && walk.fits) {
        if (threads_.IsFirst()) m_.cuts[walk.num_cuts] = static_cast<int32_t>(rest);
        ++walk.num_cuts;
      }
      if (used >= capacity) begin_slot(rest > 0 ? b : b + 1, rest > 0 ? piece : 0);
    } while (rest > 0 && walk.fits);
    if (piece == 1 || is_fixed) return;
    if (threads_.IsFirst()) m_.num_pieces[b] = piece;
    ++walk.num_cut_requests;
  }

  DecodePlanSizes Write(const DecodeWalk& walk) {
    const int32_t num_requests = batch_.num_requests;
    threads_.ForEach(num_requests, [&](int32_t b) {
      const int32_t num_pieces = m_.num_pieces[b];
      m_.sums[b] = num_pieces + (num_pieces > 1 ? kOneMerge : 0);
    });
    threads_.Sync();
    const int64_t sum = threads_.Scan(m_.sums, num_requests);
    threads_.ForEach(num_requests, [&](int32_t b) { WritePieces(b); });
    const int32_t num_pieces = NumPieces(sum);
    threads_.ForEach(limits_.num_slots + 1, [&](int32_t s) {
      int32_t begin = num_pieces;
      if (s < walk.num_slots) {
        begin = NumPieces(SumBefore(m_.slot_starts[s].request)) + m_.slot_starts[s].piece;
      }
      m_.slot_begin[s] = begin;
    });
    threads_.Sync();
    const int32_t num_merges = NumMerges(sum);
    return {num_pieces, num_pieces - (num_requests - num_merges), num_merges};
  }

  /// Sums hold pieces below, and requests of several pieces above.
  static constexpr int64_t kOneMerge = int64_t{1} << 32;
  static constexpr int32_t NumPieces(int64_t sum) { return static_cast<int32_t>(sum); }
  static constexpr int32_t NumMerges(int64_t sum) { return static_cast<int32_t>(sum >> 32); }

  void WritePieces(int32_t b) {
    const int64_t before = SumBefore(b);
    const int32_t first_piece = NumPieces(before);
    const int32_t merge = NumMerges(before);
    const int32_t num_pieces = m_.num_pieces[b];
    const bool is_cut = num_pieces > 1;
    const int32_t first_partial = first_piece - (b - merge);
    const auto kv_len = static_cast<int32_t>(batch_.KvLen(b));
    auto begin = static_cast<int32_t>(FirstKey(b));
    for (int32_t i = 0; i < num_pieces; ++i) {
      int32_t end = kv_len;
      if (i + 1 < num_pieces) {
        end = cuts_ == DecodeCuts::kFixed
                  ? (begin / limits_.fixed_kv_chunk + 1) * limits_.fixed_kv_chunk
                  : kv_len - m_.cuts[first_piece - b + i];
      }
      m_.pieces[first_piece + i] = {.request = b,
                                    .page_begin = static_cast<int32_t>(batch_.PageBegin(b)),
                                    .kv_begin = begin,
                                    .kv_end = end,
                                    .partial = is_cut ? first_partial + i : -1,
                                    .first_partial = is_cut ? first_partial : 0,
                                    .num_partials = is_cut ? num_pieces : 0,
                                    .merge = is_cut ? merge : 0};
      begin = end;
    }
  }

  Threads& threads_;
  const Batch& batch_;
  const DecodePlanLimits& limits_;
  const DecodePlanMemory& m_;
  DecodeCuts cuts_ = DecodeCuts::kBalanced;
};

/// What the kernels of decode read of slot `s`.
constexpr DecodeSlot DecodeSlotOf(const DecodePiece* pieces, const int32_t* slot_begin, int32_t s) {
  const int32_t begin = slot_begin[s];
  const int32_t count = slot_begin[s + 1] - begin;
  if (count == 0) return {};
  return {.first = pieces[begin], .num_pieces = count, .first_index = begin};
}

}  // namespace flashinfer::kernels
