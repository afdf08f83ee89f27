// SPDX-License-Identifier: Apache-2.0
// Where a prefix of a row's tokens, in the order of their values, ends: found by counting or
// weighing what is above three values at a time, and at last among the few values that are left.
#pragma once

#include "kernels/sampling/vocabulary_row.cuh"

namespace flashinfer::kernels::sampling {

/// Keeps values above `value`, and of those that equal it, in the order of their indices,
/// `num_ties` after the first `skip_ties`.
struct Cut {
  float value;
  uint64_t num_ties;
  uint64_t skip_ties;
};

inline constexpr uint64_t kAllTies = 1ull << 40;

__device__ __forceinline__ bool IsShorter(const Cut& a, const Cut& b) {
  return a.value > b.value || (a.value == b.value && a.num_ties < b.num_ties);
}

/// What a prefix is measured by: the number of its elements, or their weight. kCounts and kWeighs
/// say which of them a kernel needs.
template <class OrderType, class WeightsType, bool kCounts, bool kWeighs>
struct Measure {
  using Order = OrderType;
  WeightsType weights;
  bool is_count;

  __device__ __forceinline__ bool Counts() const { return kCounts && (!kWeighs || is_count); }

  /// Of one element.
  __device__ __forceinline__ uint64_t Of(float x) const {
    return Counts() ? 1 : weights.Quantise(weights(x));
  }
  /// Adds what a lane's elements above each pivot measure.
  template <int kSize>
  __device__ __forceinline__ void Add(const Lane& x, const float (&pivots)[kSize],
                                      uint64_t (&sums)[kSize]) const {
    if (Counts()) {
#pragma unroll
      for (int p = 0; p < kSize; ++p) {
        uint32_t count = 0;
#pragma unroll
        for (int i = 0; i < kLaneElements; ++i) count += Order::IsAbove(x[i], pivots[p]) ? 1u : 0u;
        sums[p] += count;
      }
      return;
    }
    if constexpr (kWeighs) {
      float parts[kSize] = {};
      const WeightsType anew = weights.Anew();
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) {
        const float w = anew(x[i]);
#pragma unroll
        for (int p = 0; p < kSize; ++p) {
          if (x[i] > pivots[p]) parts[p] += w;
        }
      }
#pragma unroll
      for (int p = 0; p < kSize; ++p) sums[p] += weights.Quantise(parts[p]);
    }
  }
};

/// The key at which a prefix ends is above `lo` and not above `hi`.
struct Bracket {
  int32_t lo;
  int32_t hi;
  uint64_t above_lo;  ///< at least the target, or a bound of it
  uint64_t above_hi;  ///< below the target
  bool by_value;      ///< elements are spread evenly, rather than their logarithms

  __device__ __forceinline__ uint32_t size() const {
    return static_cast<uint32_t>(hi) - static_cast<uint32_t>(lo);
  }
};

/// The key at the fraction `f` of `part` from its top, inside of `b`.
__device__ __forceinline__ int32_t PivotAt(const Bracket& part, float f, const Bracket& b) {
  const float low = FloatOfKey(part.lo);
  const float high = FloatOfKey(part.hi);
  int32_t key;
  if (part.by_value && low > -kInfinity && high < kInfinity) {
    key = OrderedKey(high - (high - low) * f);
  } else {
    // 2^32 - 256 is the largest float below 2^32.
    const auto steps =
        static_cast<uint32_t>(fminf(static_cast<float>(part.size()) * f, 0x1p32f - 256));
    key = steps >= part.size() ? part.lo
                               : static_cast<int32_t>(static_cast<uint32_t>(part.hi) - steps);
  }
  return key <= b.lo ? b.lo + 1 : key >= b.hi ? b.hi - 1 : key;
}

inline constexpr int kPivots = 3;

/// Chooses pivots: around the place that the logarithm of the measure points to; evenly when that
/// did not halve the bracket; evenly among keys, which always divides it, when that did not either.
struct PivotPlan {
  int stalls = 0;
  float flank = 0.125f;

  __device__ __forceinline__ void Choose(const Bracket& b, uint64_t target,
                                         int32_t (&keys)[kPivots]) {
    float centre = 0.5f;
    float reach = 0.25f;
    Bracket spread = b;
    if (stalls == 0 && b.above_hi > 0 && b.above_lo > target) {
      const auto log = [](uint64_t x) { return ptx::lg2_approx(static_cast<float>(x)); };
      const float hi = log(b.above_hi);
      centre = (log(target) - hi) / (log(b.above_lo) - hi);
      reach = flank;
      centre = fminf(fmaxf(centre, reach), 1.0f - reach);
      flank = 0.0625f;
    }
    spread.by_value = b.by_value && stalls < 2;
    for (int p = 0; p < kPivots; ++p) {
      keys[p] = PivotAt(spread, centre + static_cast<float>(p - 1) * reach, b);
    }
  }

  /// What a round made of a bracket of `size`.
  __device__ __forceinline__ void Note(uint32_t size, const Bracket& b) {
    stalls = b.size() > size / 2 ? stalls + 1 : 0;
  }
};

__device__ __forceinline__ void Narrow(Bracket& b, uint64_t target, const int32_t (&keys)[kPivots],
                                       const uint64_t (&above)[kPivots]) {
#pragma unroll
  for (int p = 0; p < kPivots; ++p) {
    if (above[p] >= target) {
      if (keys[p] > b.lo) b.lo = keys[p], b.above_lo = above[p];
    } else if (keys[p] < b.hi) {
      b.hi = keys[p], b.above_hi = above[p];
    }
  }
}

/// The end of a prefix: its last value, and what is above that.
struct End {
  float value;
  uint64_t above;
};

struct CutSearchStorage {
  float mine[kMaxCandidates];    ///< of this block, in any order
  float values[kMaxCandidates];  ///< of the row
  uint64_t measures[kMaxCandidates];
  uint64_t sums[2][kMaxCandidatePivots + 1];  ///< in turns
  uint32_t count[2];  ///< of `mine`, in a kernel's first search and in its second
};
static_assert(sizeof(CutSearchStorage) == CutSearchBytes());

/// Finds ends of prefixes. All threads of the row call each function.
template <class T, class RowType>
class CutSearch {
 public:
  using Order = typename T::Order;

  /// An exchange lies between this and the first search.
  __device__ __forceinline__ CutSearch(const RowType& row, typename T::Exchange& exchange,
                                       CutSearchStorage& storage)
      : row_(row), exchange_(exchange), s_(storage) {
    if (threadIdx.x < 2) s_.count[threadIdx.x] = 0;
  }

  /// The end of the shortest prefix that measures `target` or more; `target` is at least 1 and at
  /// most what is above b.lo. The first pivots are in the upper half of `part`, unless that is
  /// empty. An exchange lies between two searches.
  template <class MeasureType>
  __device__ __forceinline__ End Find(Bracket b, uint64_t target, const MeasureType& measure,
                                      const Bracket& part) {
    PivotPlan plan;
    bool is_first = part.hi > part.lo;
    while (b.size() > 1) {
      if (MostWithin(b, measure) <= kMaxCandidates) return FindAmong(b, target, measure);
      int32_t keys[kPivots];
      if (is_first) {
        for (int p = 0; p < kPivots; ++p) keys[p] = PivotAt(part, 0.125f * (1 << p), b);
      } else {
        plan.Choose(b, target, keys);
      }
      const uint32_t size = b.size();
      Round(b, target, measure, keys);
      if (!is_first) plan.Note(size, b);
      is_first = false;
    }
    return {Order::ElementOf(b.hi), b.above_hi};
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

  /// A bound of the elements in the bracket.
  template <class MeasureType>
  __device__ __forceinline__ static uint64_t MostWithin(const Bracket& b,
                                                        const MeasureType& measure) {
    const uint64_t all = b.above_lo - b.above_hi;
    if (measure.Counts()) return all;
    const uint64_t least = measure.Of(Order::ElementOf(b.lo));
    // Sums of floats may be a little short.
    const float bound = 1.001f * static_cast<float>(all) / static_cast<float>(least) + 1.0f;
    return bound <= static_cast<float>(kMaxCandidates) ? static_cast<uint64_t>(bound) : kAllTies;
  }

  /// Lists what is in the bracket, and finds the end there, in each block. Elements of
  /// -infinity, and what pads a row, are not listed: where the end is none of the others, it is at
  /// the bracket's lowest key, which is theirs.
  template <class MeasureType>
  __device__ __forceinline__ End FindAmong(const Bracket& b, uint64_t target,
                                           const MeasureType& measure) {
    const float low = Order::ElementOf(b.lo);
    const float high = Order::ElementOf(b.hi);
    uint32_t* count = &s_.count[search_];
    row_.ForEachChunk([&](uint32_t, const Lane& x) {
      const auto is_within = [&](float e) {
        return Order::IsAbove(e, low) && !Order::IsAbove(e, high);
      };
      uint32_t n = 0;
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) n += is_within(x[i]) ? 1u : 0u;
      if (n == 0) return;
      uint32_t at = atomicAdd(count, n);
      if (at + n > kMaxCandidates) return;
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) {
        if (is_within(x[i])) s_.mine[at++] = x[i];
      }
    });
    exchange_.Barrier();
    const uint32_t num_values = Gather(count, measure);
    __syncthreads();
    search_ ^= 1;
    return NarrowAmong(b, target, num_values);
  }

  /// The lists of all blocks, one after another.
  template <class MeasureType>
  __device__ __forceinline__ uint32_t Gather(const uint32_t* count, const MeasureType& measure) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t mine = lane < T::kCluster ? T::Exchange::ReadFrom(lane, count) : 0;
    uint32_t to_here = mine;
#pragma unroll
    for (int step = 1; step < T::kCluster; step *= 2) {
      const uint32_t other = __shfl_up_sync(tile::kFullWarp, to_here, step);
      if (lane >= step) to_here += other;
    }
    uint32_t total = __shfl_sync(tile::kFullWarp, to_here, T::kCluster - 1);
    total = total < kMaxCandidates ? total : kMaxCandidates;
    for (uint32_t first = 0; first < total; first += T::kWarps * 32) {
      const uint32_t i = first + threadIdx.x;
      uint32_t block = 0;
      uint32_t begin = 0;
#pragma unroll
      for (int k = 0; k + 1 < T::kCluster; ++k) {
        const uint32_t end = __shfl_sync(tile::kFullWarp, to_here, k);
        if (i >= end) block = k + 1, begin = end;
      }
      if (i >= total) continue;
      const float value = __uint_as_float(T::Exchange::ReadFrom(block, &s_.mine[i - begin]));
      s_.values[i] = value;
      s_.measures[i] = measure.Of(value);
    }
    return total;
  }

  /// What is above a pivot, of the list, for three pivots of each warp at a time.
  __device__ __forceinline__ End NarrowAmong(Bracket b, uint64_t target, uint32_t num_values) {
    constexpr uint32_t kAll = kPivots * T::kWarps;
    const uint64_t above = b.above_hi;
    const uint32_t lane = threadIdx.x % 32;
    int set = 0;
    while (b.size() > 1) {
      // Pivot i is the i-th of kAll that divide the bracket evenly; some may be equal.
      const auto pivot = [&](uint32_t i) {
        return static_cast<int32_t>(static_cast<uint32_t>(b.lo) +
                                    static_cast<uint32_t>(uint64_t{b.size()} * i / (kAll + 1)));
      };
      const uint32_t first = threadIdx.x / 32 * kPivots + 1;
      float pivots[kPivots];
      uint64_t sums[kPivots] = {};
#pragma unroll
      for (int p = 0; p < kPivots; ++p) pivots[p] = Order::ElementOf(pivot(first + p));
      for (uint32_t i = lane; i < num_values; i += 32) {
        const float value = s_.values[i];
        const uint64_t m = s_.measures[i];
#pragma unroll
        for (int p = 0; p < kPivots; ++p) {
          if (Order::IsAbove(value, pivots[p])) sums[p] += m;
        }
      }
#pragma unroll
      for (int p = 0; p < kPivots; ++p) {
        sums[p] = above + WarpSum64(sums[p]);
        if (lane == 0) s_.sums[set][first + p] = sums[p];
      }
      __syncthreads();
      // What is above the pivots falls from one to the next.
      uint32_t num_reached = 0;
#pragma unroll
      for (uint32_t i = 0; i < kAll; i += 32) {
        const bool is_reached = i + lane < kAll && s_.sums[set][i + lane + 1] >= target;
        num_reached += static_cast<uint32_t>(__popc(__ballot_sync(tile::kFullWarp, is_reached)));
      }
      const int32_t lo = pivot(num_reached);
      if (num_reached < kAll) {
        b.hi = pivot(num_reached + 1);
        b.above_hi = s_.sums[set][num_reached + 1];
      }
      b.lo = lo;
      set ^= 1;
    }
    return {Order::ElementOf(b.hi), b.above_hi};
  }

  const RowType& row_;
  typename T::Exchange& exchange_;
  CutSearchStorage& s_;
  int search_ = 0;
};

}  // namespace flashinfer::kernels::sampling
