// SPDX-License-Identifier: Apache-2.0
// The elements of a row between two values, in shared memory of each of its blocks, and ends of
// prefixes among them. No block waits for another there.
#pragma once

#include "kernels/sampling/vocabulary_measure.cuh"

namespace flashinfer::kernels::sampling {

struct Candidate {
  uint64_t measure;
  float value;
};

/// Values of a block's own candidates, where they are not those of the row.
template <int kCount>
struct OwnValues {
  float own[kCount];
};
template <>
struct OwnValues<0> {};

template <class T>
inline constexpr int kMaxCandidatesOf = T::kStreams ? kMaxStreamedCandidates : kMaxCandidates;

template <class T>
inline constexpr int kNumOwnValues = T::kStreams&& T::kCluster != 1 ? kMaxStreamedCandidates : 0;

template <class T>
struct CutSearchStorage : OwnValues<kNumOwnValues<T>> {
  static constexpr int kMax = kMaxCandidatesOf<T>;
  uint32_t mine[kMax];                    ///< columns, of this block, in any order
  float values[kMax];                     ///< of the row
  Candidate few[kFewCandidates];          ///< those that are left
  Candidate end;                          ///< the last of a prefix, and what is above it
  uint64_t sums[2][kMaxCandidateWords];   ///< in turns
  uint32_t num_mine[kMaxCandidateLists];  ///< of each list that was made
  uint32_t num_few[4];                    ///< of each search among them
};

/// All threads of a block call each function, those of all blocks of a row.
template <class T>
class CandidateList {
 public:
  using Order = typename T::Order;
  using Exchange = typename T::Exchange;

  /// A barrier lies between this and the first list.
  __device__ __forceinline__ explicit CandidateList(CutSearchStorage<T>& storage) : s_(storage) {
    static_assert(sizeof(storage) == CutSearchBytes(T::kResident, T::kCluster));
    if (threadIdx.x < kMaxCandidateLists) s_.num_mine[threadIdx.x] = 0;
    if (threadIdx.x < 4) s_.num_few[threadIdx.x] = 0;
  }

  /// Adds elements of a lane's chunk, and says how many. By all lanes of a warp together.
  template <class RowType>
  __device__ __forceinline__ uint32_t Add(const RowType& row, uint32_t chunk, uint32_t mask) {
    const auto n = static_cast<uint32_t>(__popc(mask));
    if (__ballot_sync(tile::kFullWarp, n != 0) == 0) return 0;
    const uint32_t to_here = WarpScan(n);
    uint32_t at = 0;
    if (threadIdx.x % 32 == 31) at = atomicAdd(&s_.num_mine[list_], to_here);
    at = __shfl_sync(tile::kFullWarp, at, 31) + to_here - n;
    if (at + n > kMax) return n;
#pragma unroll 1
    for (; mask != 0; mask &= mask - 1, ++at) {
      const int i = __ffs(static_cast<int>(mask)) - 1;
      s_.mine[at] = ColumnOf<T>(chunk, i);
      // In which register it is, nobody knows.
      if constexpr (T::kStreams) Own()[at] = row.Visited(chunk, i);
    }
    return n;
  }

  /// The elements that were added will not be looked at.
  __device__ __forceinline__ void Drop() { ++list_; }

  /// Collects what the row's blocks added, which `num_of(block)` says. After an
  /// exchange; another one lies between this and the next Add(). What is above all of them measures
  /// `above`.
  template <class RowType, class NumOf>
  __device__ __forceinline__ void Gather(const RowType& row, uint64_t above, const NumOf& num_of) {
    above_ = above;
    ++list_;
    uint32_t ends[T::kCluster];
    size_ = 0;
#pragma unroll
    for (int k = 0; k < T::kCluster; ++k) {
      if (k == static_cast<int>(Exchange::BlockRank())) own_begin_ = size_;
      ends[k] = size_ += static_cast<uint32_t>(num_of(k));
      if (k == static_cast<int>(Exchange::BlockRank())) own_end_ = size_;
    }
    if constexpr (!T::kStreams || T::kCluster > 1) {  // else they are there
      constexpr uint32_t kAtOnce = 4;
      for (uint32_t first = threadIdx.x; first < size_; first += kAtOnce * kThreads) {
        float values[kAtOnce];
#pragma unroll
        for (uint32_t j = 0; j < kAtOnce; ++j) {
          const uint32_t i = first + j * kThreads;
          uint32_t block = 0;
          uint32_t begin = 0;
#pragma unroll
          for (int k = 0; k + 1 < T::kCluster; ++k) {
            if (i >= ends[k]) block = static_cast<uint32_t>(k) + 1, begin = ends[k];
          }
          if (i >= size_) continue;
          if constexpr (T::kStreams) {
            values[j] = __uint_as_float(Exchange::ReadFrom(block, &Own()[i - begin]));
          } else {
            values[j] = row.ElementAt(Exchange::ReadFrom(block, &s_.mine[i - begin]));
          }
        }
#pragma unroll
        for (uint32_t j = 0; j < kAtOnce; ++j) {
          const uint32_t i = first + j * kThreads;
          if (i < size_) s_.values[i] = values[j];
        }
      }
      __syncthreads();
    }
  }

  /// Calls `visit(column, value)` for this block's own, from the `first` one on, by steps.
  template <class Visit>
  __device__ __forceinline__ void ForEachOwn(uint32_t first, uint32_t step,
                                             const Visit& visit) const {
    for (uint32_t i = own_begin_ + first; i < own_end_; i += step) {
      visit(s_.mine[i - own_begin_], s_.values[i]);
    }
  }

  /// What the list's elements above each pivot measure, and how many they are.
  template <int kSize, class MeasureType>
  __device__ __forceinline__ void MeasureAbove(const float (&pivots)[kSize],
                                               const MeasureType& measure, uint64_t (&sums)[kSize],
                                               uint32_t (&counts)[kSize]) {
#pragma unroll
    for (int p = 0; p < kSize; ++p) sums[p] = counts[p] = 0;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < size_; i += kThreads) {
      const float value = s_.values[i];
      const uint64_t m = measure.Of(value);
#pragma unroll
      for (int p = 0; p < kSize; ++p) {
        if (Order::IsAbove(value, pivots[p])) sums[p] += m, ++counts[p];
      }
    }
    static_assert(2 * kSize * T::kWarps <= kMaxCandidateWords, "two words of each warp");
    const uint32_t lane = threadIdx.x % 32;
    set_ ^= 1;
    uint64_t* words = s_.sums[set_];
#pragma unroll
    for (int p = 0; p < kSize; ++p) {
      sums[p] = WarpSum64(sums[p]);
      counts[p] = static_cast<uint32_t>(WarpSum64(counts[p]));
      if (lane != 0 || T::kWarps == 1) continue;
      words[2 * (threadIdx.x / 32 * kSize + p)] = sums[p];
      words[2 * (threadIdx.x / 32 * kSize + p) + 1] = counts[p];
    }
    if constexpr (T::kWarps == 1) return;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kSize; ++p) {
      const uint32_t at = 2 * (lane * kSize + p);
      sums[p] = WarpSum64(lane < T::kWarps ? words[at] : 0);
      counts[p] = static_cast<uint32_t>(WarpSum64(lane < T::kWarps ? words[at + 1] : 0));
    }
  }

  /// Narrows a bracket of a prefix's end to one key, where it is in the list. Elements that were
  /// not listed, of 0 or -infinity, are at the bracket's lowest key: where the end is none of the
  /// others, it is there.
  template <class MeasureType>
  __device__ __forceinline__ void Narrow(Bracket& b, uint64_t target, const MeasureType& measure) {
    PivotPlan plan;
    uint32_t above_lo = size_;  // how many are above b.lo, and b.hi
    uint32_t above_hi = 0;
#pragma unroll 1
    while (b.size() > 1 && above_lo - above_hi > kFewCandidates) {
      int32_t keys[kPivots];
      plan.ChooseAmong(b, target, above_lo - above_hi, keys);
      float pivots[kPivots];
#pragma unroll
      for (int p = 0; p < kPivots; ++p) pivots[p] = Order::ElementOf(keys[p]);
      uint64_t sums[kPivots];
      uint32_t counts[kPivots];
      MeasureAbove(pivots, measure, sums, counts);
#pragma unroll
      for (int p = 0; p < kPivots; ++p) sums[p] += above_;
      const uint32_t size = b.size();
      sampling::Narrow(b, target, keys, sums);
      plan.Note(size, b);
#pragma unroll
      for (int p = 0; p < kPivots; ++p) {
        if (keys[p] == b.lo) above_lo = counts[p];
        if (keys[p] == b.hi) above_hi = counts[p];
      }
    }
    if (b.size() > 1) EndAmongFew(b, target, measure);
  }

 private:
  static constexpr uint32_t kThreads = T::kWarps * 32;
  static constexpr uint32_t kMax = kMaxCandidatesOf<T>;

  __device__ __forceinline__ float* Own() const {
    if constexpr (T::kCluster > 1) {
      return s_.own;
    } else {
      return s_.values;
    }
  }

  /// Narrows by a thread for each of the few values in the bracket.
  template <class MeasureType>
  __device__ __forceinline__ void EndAmongFew(Bracket& b, uint64_t target,
                                              const MeasureType& measure) {
    const float low = Order::ElementOf(b.lo);
    const float high = Order::ElementOf(b.hi);
    uint32_t* count = &s_.num_few[search_++];
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < size_; i += kThreads) {
      const float value = s_.values[i];
      if (!Order::IsAbove(value, low) || Order::IsAbove(value, high)) continue;
      s_.few[atomicAdd(count, 1u)] = {measure.Of(value), value};
    }
    __syncthreads();
    const uint32_t num_few = *count;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < kFewCandidates; i += kThreads) {
      if (i > 0 && i >= num_few) continue;
      const float value = num_few > 0 ? s_.few[i].value : high;
      uint64_t above = b.above_hi;
      uint64_t to_here = b.above_hi;
      uint64_t all = b.above_hi;
      bool is_first = true;  // of those that are equal
#pragma unroll 4
      for (uint32_t j = 0; j < num_few; ++j) {
        const Candidate other = s_.few[j];
        all += other.measure;
        const bool is_above = Order::IsAbove(other.value, value);
        const bool is_here = is_above || !Order::IsAbove(value, other.value);
        if (is_above) above += other.measure;
        if (is_here) to_here += other.measure;
        if (is_here && !is_above && j < i) is_first = false;
      }
      if (is_first && above < target && to_here >= target) s_.end = {above, value};
      if (i == 0 && all < target) s_.end = {all, Order::ElementOf(b.lo + 1)};
    }
    __syncthreads();
    b.above_hi = s_.end.measure;
    b.hi = Order::KeyOf(s_.end.value);
  }

  CutSearchStorage<T>& s_;
  uint64_t above_ = 0;
  uint32_t size_ = 0;
  uint32_t own_begin_ = 0;  ///< of this block's own, among those of the row
  uint32_t own_end_ = 0;
  int list_ = 0;
  int search_ = 0;
  int set_ = 0;
};

}  // namespace flashinfer::kernels::sampling
