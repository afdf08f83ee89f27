// SPDX-License-Identifier: Apache-2.0
// Where a prefix of a row's tokens, in the order of their values, ends: near where a survey of the
// row says; else by counting or weighing what is above three values at a time.
#pragma once

#include "kernels/sampling/vocabulary_forecast.cuh"

namespace flashinfer::kernels::sampling {

/// What a pass found that listed the elements above `lo` and not above `hi`, keys both.
struct Listing {
  int32_t lo = kHighestKey;
  int32_t hi = kHighestKey;
  uint64_t above = 0;  ///< what is above `hi` measures
  uint64_t within = 0;
  uint64_t count = 0;  ///< how many are listed
  bool is_made = false;
};

/// How a search begins.
struct SearchStart {
  Guess guess;      ///< where it looks first, unless there is
  Listing listing;  ///< a list that was made before it
  bool wants_all;   ///< of counts: the list then has all elements above the end
  bool is_listed;   ///< by the search before: those above the bracket
};

/// Finds ends of prefixes. All threads of the row call each function.
template <class T, class RowType>
class CutSearch {
 public:
  using Order = typename T::Order;
  /// In the exchange after a pass that lists before the first search: the count of the list.
  static constexpr int kCountWord = 1;

  /// An exchange lies between this and the first search.
  __device__ __forceinline__ CutSearch(const RowType& row, typename T::Exchange& exchange,
                                       CutSearchStorage<T>& storage)
      : row_(row), exchange_(exchange), list_(storage) {}

  /// Adds to the list before the first search, which is told of it.
  __device__ __forceinline__ uint32_t AddBefore(uint32_t chunk, uint32_t mask) {
    return list_.Add(row_, chunk, mask);
  }
  /// What was added will not be looked at.
  __device__ __forceinline__ void DropBefore() { list_.Drop(); }
  /// Whether the list is still the one from before the first search.
  __device__ __forceinline__ bool has_first_list() const { return has_first_list_; }
  __device__ __forceinline__ const CandidateList<T>& list() const { return list_; }

  /// The end of the shortest prefix that measures `target` or more; `target` is at least 1 and at
  /// most what is above b.lo. With wants_all there are kMaxCandidates at most above the end.
  /// Between two searches that list lies an exchange.
  template <class MeasureType>
  __device__ __forceinline__ End Find(Bracket b, uint64_t target, const MeasureType& measure,
                                      const SearchStart& start) {
    Guess g = start.guess;
    const bool wants_all = start.wants_all;
    bool is_listed = start.is_listed;
    if (g.lo >= b.hi) g.lo = b.hi - 1;
    if (g.lo < b.lo) g.lo = b.lo;
    if (g.hi > b.hi || g.hi <= g.lo) g.hi = b.hi;
    const int32_t max = b.hi;
    PivotPlan plan;
    bool is_guess = true;
    if (start.listing.is_made) {
      is_listed = has_first_list_ = Take(b, target, start.listing);
      is_guess = false;
    }
#pragma unroll 1
    while (!is_listed && (b.size() > 1 || wants_all)) {
      int32_t lo = g.lo;
      int32_t hi = g.hi;
      uint64_t most = g.expected;
      if (b.size() <= 1) {
        lo = b.hi, hi = max, most = 0;
      } else if (!is_guess) {
        lo = b.lo;
        hi = wants_all ? max : b.hi;
        most = wants_all ? b.above_lo : MostWithin(b, measure);
      }
      if (most <= kMaxCandidatesOf<T>) {
        is_listed = List(b, target, measure, lo, hi);
        if (is_listed || is_guess) {
          is_guess = false;
          continue;
        }
      }
      int32_t keys[kPivots];
      if (is_guess) {
        const Bracket part{lo, hi, 0, 0, b.by_value};
#pragma unroll
        for (int p = 0; p < kPivots; ++p) keys[p] = PivotAt(part, 0.5f * static_cast<float>(p), b);
      } else {
        plan.Choose(b, target, keys);
      }
      const uint32_t size = b.size();
      Round(b, target, measure, keys);
      if (!is_guess) plan.Note(size, b);
      is_guess = false;
    }
    if (is_listed) list_.Narrow(b, target, measure);
    return {Order::ElementOf(b.hi), b.above_hi};
  }

  /// What the listed elements above `value` measure.
  template <class MeasureType>
  __device__ __forceinline__ uint64_t MeasureListed(float value, const MeasureType& measure) {
    const float pivots[1] = {value};
    uint64_t sums[1];
    uint32_t counts[1];
    list_.MeasureAbove(pivots, measure, sums, counts);
    return sums[0];
  }

 private:
  template <class MeasureType>
  __device__ __forceinline__ void Round(Bracket& b, uint64_t target, const MeasureType& measure,
                                        const int32_t (&keys)[kPivots]) {
    float pivots[kPivots];
    uint64_t sums[kPivots] = {};
#pragma unroll
    for (int p = 0; p < kPivots; ++p) pivots[p] = Order::ElementOf(keys[p]);
    row_.ForEachChunk([&](uint32_t, const Lane& x) { measure.Add(x, pivots, sums); });
    exchange_.Reduce(sums, SumOf());
    Narrow(b, target, keys, sums);
  }

  /// Lists what is above `lo` and not above `hi`, and measures what is above either. Whether they
  /// are few enough, and the end not outside of them, or known; `b` is narrowed in any case.
  template <class MeasureType>
  __device__ __forceinline__ bool List(Bracket& b, uint64_t target, const MeasureType& measure,
                                       int32_t lo, int32_t hi) {
    const float low = Order::ElementOf(lo);
    const float high = Order::ElementOf(hi);
    uint64_t words[3] = {0, 0, 0};  // above hi; between; how many are there
    row_.ForEachChunk([&](uint32_t chunk, const Lane& x) {
      words[2] += list_.Add(row_, chunk, measure.AddWithin(x, low, high, words[0], words[1]));
    });
    exchange_.Reduce(words, SumOf());
    has_first_list_ = false;
    return Take<2>(b, target, {lo, hi, words[0], words[1], words[2], true});
  }

  /// The same of what a pass listed, whose exchange had the counts of the list as its word kWord.
  template <int kWord = kCountWord>
  __device__ __forceinline__ bool Take(Bracket& b, uint64_t target, const Listing& listing) {
    // Where nothing is listed, the end is not in the list, unless it is known.
    bool is_inside = listing.lo < b.hi || b.size() <= 1;
    if (listing.hi < b.hi) {
      const bool is_above = listing.above >= target;
      is_inside = is_inside && !is_above;
      Set(b, !is_above, listing.hi, listing.above);
    }
    if (listing.lo > b.lo && listing.lo < b.hi) {
      const uint64_t above = listing.above + listing.within;
      const bool is_below = above < target;
      is_inside = is_inside && !is_below;
      Set(b, is_below, listing.lo, above);
    }
    if (!is_inside || listing.count > kMaxCandidatesOf<T>) {
      list_.Drop();
      return false;
    }
    list_.Gather(row_, listing.above,
                 [&](int block) { return exchange_.OfBlock(block, kWord, listing.count); });
    return true;
  }

  /// The end is not above `key`, or above it.
  __device__ __forceinline__ static void Set(Bracket& b, bool is_not_above, int32_t key,
                                             uint64_t above) {
    if (is_not_above) {
      b.hi = key, b.above_hi = above;
    } else {
      b.lo = key, b.above_lo = above;
    }
  }

  const RowType& row_;
  typename T::Exchange& exchange_;
  CandidateList<T> list_;
  bool has_first_list_ = false;
};

}  // namespace flashinfer::kernels::sampling
