// SPDX-License-Identifier: Apache-2.0
// Where a prefix of a row's tokens, in the order of their values, ends: near where a survey of the
// row says; else by counting or weighing what is above three values at a time.
#pragma once

#include "kernels/sampling/vocabulary_list.cuh"

namespace flashinfer::kernels::sampling {

/// Finds ends of prefixes. All threads of the row call each function.
template <class T, class RowType>
class CutSearch {
 public:
  using Order = typename T::Order;

  /// An exchange lies between this and the first search.
  __device__ __forceinline__ CutSearch(const RowType& row, typename T::Exchange& exchange,
                                       CutSearchStorage& storage)
      : row_(row), exchange_(exchange), list_(storage) {}

  /// The end of the shortest prefix that measures `target` or more; `target` is at least 1 and at
  /// most what is above b.lo. With wants_all, of counts, the list then has all elements above the
  /// end, which are kMaxCandidates at most, and maybe others; `is_listed` says that it had those
  /// above b.lo before. Between two searches that list lies an exchange.
  template <class MeasureType>
  __device__ __forceinline__ End Find(Bracket b, uint64_t target, const MeasureType& measure,
                                      Guess g, bool wants_all, bool is_listed) {
    if (g.lo < b.lo) g.lo = b.lo;
    if (g.hi > b.hi || g.hi <= g.lo) g.hi = b.hi;
    const int32_t max = b.hi;
    PivotPlan plan;
    bool is_guess = true;
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
      if (most <= kMaxCandidates) {
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
    uint64_t words[3] = {0, 0, 0};  // above hi; above lo, or first between; how many are there
    row_.ForEachChunk([&](uint32_t chunk, const Lane& x) {
      words[2] += list_.Add(chunk, measure.AddWithin(x, low, high, words[0], words[1]));
    });
    exchange_.Reduce(words, SumOf());
    words[1] += words[0];
    bool is_inside = true;
    if (hi < b.hi) {
      is_inside = words[0] < target;
      Set(b, is_inside, hi, words[0]);
    }
    if (lo > b.lo && lo < b.hi) {
      const bool is_below = words[1] < target;
      is_inside = is_inside && !is_below;
      Set(b, is_below, lo, words[1]);
    }
    if (!is_inside || words[2] > kMaxCandidates) {
      list_.Drop();
      return false;
    }
    list_.Gather(row_, words[0], [&](int block) { return exchange_.OfBlock(block, 2, words[2]); });
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
};

}  // namespace flashinfer::kernels::sampling
