// SPDX-License-Identifier: Apache-2.0
// What a cut keeps of a row, by warps: ties are kept in the order of their indices.
#pragma once

#include "kernels/sampling/vocabulary_survey.cuh"

namespace flashinfer::kernels::sampling {

/// How many of the tie ranks from `begin` to `end` a cut keeps.
__device__ __forceinline__ uint64_t KeptTies(const Cut& cut, uint64_t begin, uint64_t end) {
  const auto kept_before = [&](uint64_t rank) {
    const uint64_t after_skipped = rank > cut.skip_ties ? rank - cut.skip_ties : 0;
    return after_skipped < cut.num_ties ? after_skipped : cut.num_ties;
  };
  return kept_before(end) - kept_before(begin);
}

/// Which of the ties from some rank on a cut keeps: those from `begin` to `end`, counted from
/// there.
struct TieRange {
  uint32_t begin;
  uint32_t end;

  __device__ __forceinline__ TieRange(const Cut& cut, uint64_t rank)
      : begin(From(cut.skip_ties, rank)), end(From(cut.skip_ties + cut.num_ties, rank)) {}
  __device__ __forceinline__ bool Has(uint32_t tie) const { return tie >= begin && tie < end; }

 private:
  __device__ __forceinline__ static uint32_t From(uint64_t limit, uint64_t rank) {
    const uint64_t n = limit > rank ? limit - rank : 0;
    return n < 0x80000000u ? static_cast<uint32_t>(n) : 0x80000000u;
  }
};

/// Elements of a lane's chunk, a bit each.
struct LaneMasks {
  uint32_t above;
  uint32_t ties;
};

template <class Order>
__device__ __forceinline__ LaneMasks MasksOf(const Lane& x, const Cut& cut) {
  LaneMasks m{0, 0};
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const bool is_above = Order::IsAbove(x[i], cut.value);
    m.above |= is_above ? 1u << i : 0u;
    m.ties |= !is_above && !Order::IsAbove(cut.value, x[i]) ? 1u << i : 0u;
  }
  return m;
}

/// What elements above a cut weigh, and how many equal it.
struct Mass {
  uint64_t above;
  uint64_t num_ties;
};

template <class Weights>
__device__ __forceinline__ Mass MassOf(const Lane& x, const Cut& cut, const Weights& weights) {
  float sum = 0;
  bool has_ties = false;
  const Weights anew = weights.Anew();
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    if (x[i] > cut.value) sum += anew(x[i]);
    has_ties |= x[i] == cut.value;
  }
  uint32_t ties = 0;
  if (has_ties) {
    float value = cut.value;
    ptx::Opaque(value);  // else the comparisons above are kept, at a price
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) ties += x[i] == value ? 1u : 0u;
  }
  return {weights.Quantise(sum), ties};
}

/// The same, where elements that are not above `high` are weighed one by one.
template <class Weights>
__device__ __forceinline__ Mass MassOfParts(const Lane& x, const Cut& cut, float high,
                                            const Weights& weights) {
  float sum = 0;
  Mass mass{0, 0};
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const float weight = weights(x[i]);
    if (x[i] > high) {
      sum += weight;
    } else if (x[i] > cut.value) {
      mass.above += weights.Quantise(weight);
    }
    mass.num_ties += x[i] == cut.value ? 1 : 0;
  }
  mass.above += weights.Quantise(sum);
  return mass;
}

/// Of this warp's chunks together; the same in all lanes.
template <class RowType, class Weights>
__device__ __forceinline__ Mass MassOfWarp(const RowType& row, const Cut& cut,
                                           const Weights& weights) {
  Mass mass{0, 0};
  row.ForEachChunk([&](uint32_t, const Lane& x) {
    const Mass part = MassOf(x, cut, weights);
    mass.above += part.above;
    mass.num_ties += part.num_ties;
  });
  return {WarpSum64(mass.above), WarpSum64(mass.num_ties)};
}

/// The ties of one warp's chunks, in vocabulary order: by groups of adjacent elements of a lane,
/// then by lanes.
template <class T>
class TieCounter {
 public:
  /// `rank` is that of the warp's first tie.
  __device__ __forceinline__ TieCounter(const Cut& cut, uint64_t rank) : cut_(cut), rank_(rank) {}

  /// Of a chunk's ties, those that are kept.
  __device__ __forceinline__ uint32_t Kept(uint32_t ties) {
    uint32_t kept = 0;
    if (__ballot_sync(tile::kFullWarp, ties != 0) == 0) return 0;
#pragma unroll 1
    for (int first = 0; first < kLaneElements; first += T::kVec) {
      uint32_t group = ties & (((1u << T::kVec) - 1) << first);
      const auto count = static_cast<uint32_t>(__popc(group));
      const uint32_t to_here = WarpScan(count);
      const TieRange range(cut_, rank_ + to_here - count);
      for (uint32_t tie = 0; group != 0; ++tie, group &= group - 1) {
        if (range.Has(tie)) kept |= group & (~group + 1);
      }
      rank_ += __shfl_sync(tile::kFullWarp, to_here, 31);
    }
    return kept;
  }

 private:
  const Cut& cut_;
  uint64_t rank_;
};

/// What this warp's chunks hold, among those of the row.
struct Kept {
  Mass mine;
  uint64_t tie_weight;
  uint64_t tie_rank;  ///< of this warp's first tie
  uint64_t before;    ///< kept weight of the warps before
  uint64_t weight;    ///< kept weight of this warp
  uint64_t total;     ///< kept weight of the row

  /// `mass` is that of the warp.
  template <class Exchange, class Weights>
  __device__ __forceinline__ Kept(const Mass& mass, Exchange& exchange, const Cut& cut,
                                  const Weights& weights)
      : mine(mass) {
    uint64_t words[2] = {mine.above, mine.num_ties};
    exchange.ReduceWarps(words, SumOf());
    tie_weight = weights.Quantise(weights(cut.value));
    tie_rank = exchange.Before(1);
    before = exchange.Before(0) + KeptTies(cut, 0, tie_rank) * tie_weight;
    weight = mine.above + KeptTies(cut, tie_rank, tie_rank + mine.num_ties) * tie_weight;
    total = words[0] + KeptTies(cut, 0, words[1]) * tie_weight;
  }
};

}  // namespace flashinfer::kernels::sampling
