// SPDX-License-Identifier: Apache-2.0
// What one pass over a row tells of it: its largest element, its weight, and about where a prefix
// ends.
#pragma once

#include "kernels/sampling/vocabulary_sample.cuh"

namespace flashinfer::kernels::sampling {

/// Of the elements of a row.
struct Extremes {
  float max;
  bool is_bad;  ///< some element is NaN; of probabilities, also a negative one
};

/// A bound of the k-th largest element of a row: in each warp, the `rank`-th largest of the lanes'
/// largest elements; of all warps, the least.
struct BoundPlan {
  uint32_t rank = 0;       ///< 0: none
  uint32_t num_warps = 0;  ///< whose chunks are all inside of the row

  __device__ __forceinline__ static BoundPlan Of(uint32_t k, uint32_t size, int32_t chunks) {
    BoundPlan plan;
    plan.num_warps = size / (static_cast<uint32_t>(chunks) * kChunkElements);
    if (plan.num_warps == 0) return plan;
    plan.rank = (k + plan.num_warps - 1) / plan.num_warps;
    if (plan.rank > 32) plan.rank = 32;
    return plan;
  }

  /// As a word of an exchange, a maximum; `key` is that of a lane's largest element.
  template <class Exchange>
  __device__ __forceinline__ uint32_t Word(uint32_t key) const {
    if (Exchange::WarpRank() >= num_warps) return 0;
    uint32_t highest = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < rank; ++i) {
      highest = WarpMax32(key);
      const uint32_t holders = __ballot_sync(tile::kFullWarp, key == highest);
      if (__ffs(static_cast<int>(holders)) - 1 == static_cast<int>(threadIdx.x % 32)) key = 0;
    }
    return ~highest;
  }

  /// Where the k-th largest is, in a row whose largest element has the key `max`. Of few elements a
  /// warp the bound is about right; of more it is low, and only a place to look at.
  __device__ __forceinline__ Guess GuessOf(uint64_t word, int32_t max) const {
    constexpr uint32_t kFewRanks = 8;
    if (rank == 0) return {FloatOrder::kNothing, max, 0};
    const int32_t bound = SignedKey(~static_cast<uint32_t>(word));
    return {bound > FloatOrder::kNothing ? bound - 1 : bound, max,
            rank <= kFewRanks ? 0u : kAllTies};
  }
};

/// What a pass over a row finds.
struct Survey {
  Extremes extremes;
  uint64_t bound;  ///< a word of BoundPlan
  uint64_t total;  ///< weight, where the row was weighed
};

/// The extremes of a lane's elements, one after another.
template <bool kAreLogits>
struct LaneExtremes {
  float max = -kInfinity;
  bool is_bad = false;

  __device__ __forceinline__ void Add(float x) {
    is_bad |= kAreLogits ? x != x : !(x >= 0.0f);
    max = fmaxf(max, x);
  }
  /// As the first two words of an exchange, maxima.
  template <class Exchange, int kWords>
  __device__ __forceinline__ void SetWords(const BoundPlan& plan, uint64_t (&words)[kWords]) const {
    const uint32_t key = UnsignedKey(OrderedKey(max + 0.0f));  // no -0
    words[0] = key;
    words[1] = (uint64_t{is_bad} << 32) | plan.template Word<Exchange>(key);
  }
  template <int kWords>
  __device__ __forceinline__ static Survey Of(const uint64_t (&words)[kWords]) {
    return {.extremes = {.max = FloatOfKey(SignedKey(static_cast<uint32_t>(words[0]))),
                         .is_bad = words[1] >> 32 != 0},
            .bound = words[1],
            .total = kWords > 2 ? words[kWords - 1] : 0};
  }
};

/// The extremes of a row.
template <bool kAreLogits, class T, class RowType>
__device__ __forceinline__ Survey SurveyOf(const RowType& row, typename T::Exchange& exchange,
                                           const BoundPlan& plan) {
  LaneExtremes<kAreLogits> extremes;
  row.ForEachChunk([&](uint32_t, const Lane& x) {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) extremes.Add(x[i]);
  });
  uint64_t words[2];
  extremes.template SetWords<typename T::Exchange>(plan, words);
  exchange.Reduce(words, MaxOf());
  return extremes.Of(words);
}
template <bool kAreLogits, class T, class RowType>
__device__ __forceinline__ Extremes ExtremesOf(const RowType& row, typename T::Exchange& exchange) {
  return SurveyOf<kAreLogits, T>(row, exchange, BoundPlan()).extremes;
}

/// What a lane's elements weigh; the sample gets its share of them.
template <class WeightsType, class SampleType>
__device__ __forceinline__ uint64_t WeighLane(const Lane& x, const WeightsType& weights,
                                              SampleType& sample) {
  float sum = 0;
  const WeightsType anew = weights.Anew();
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const float weight = anew(x[i]);
    sum += weight;
    if (i % SampleType::kEvery == 0) sample.Add(weight);
  }
  return weights.Quantise(sum);
}

/// What a row weighs, by a pass over it.
template <class T, class RowType, class WeightsType, class SampleType>
__device__ __forceinline__ uint64_t Weigh(const RowType& row, typename T::Exchange& exchange,
                                          const WeightsType& weights, SampleType& sample) {
  uint64_t sums[1] = {0};
  row.ForEachChunk([&](uint32_t, const Lane& x) { sums[0] += WeighLane(x, weights, sample); });
  exchange.Reduce(sums, SumOf(), [&] { sample.Send(); });
  return sums[0];
}

/// Extremes and weight of probabilities, by one pass where they are about as large as those of a
/// distribution are, and otherwise by a second one.
template <class T, class RowType, class SampleType>
__device__ __forceinline__ Survey WeighedSurveyOf(const RowType& row,
                                                  typename T::Exchange& exchange,
                                                  const BoundPlan& plan, int32_t size,
                                                  SampleType& sample) {
  Weights<false> weights(1.0f, 1.0f, size);
#pragma unroll 1
  for (;;) {
    LaneExtremes<false> extremes;
    uint64_t total = 0;
    row.ForEachChunk([&](uint32_t, const Lane& x) {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) extremes.Add(x[i]);
      total += WeighLane(x, weights, sample);
    });
    uint64_t words[3];
    extremes.template SetWords<typename T::Exchange>(plan, words);
    words[2] = total;
    exchange.Reduce(words, MaximaAndSums<2>(), [&] { sample.Send(); });
    const Survey survey = extremes.Of(words);
    const Extremes& e = survey.extremes;
    const Weights<false> right(e.max, 1.0f, size);
    if (e.is_bad || !(e.max > 0.0f) || right.factor == weights.factor) return survey;
    weights = right;
    sample.Clear();
  }
}

}  // namespace flashinfer::kernels::sampling
