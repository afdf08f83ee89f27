// SPDX-License-Identifier: Apache-2.0
// Cuts of rows, what prefixes are measured by, and brackets of keys in which one ends.
#pragma once

#include "kernels/sampling/vocabulary_survey.cuh"

namespace flashinfer::kernels::sampling {

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
  /// Adds what a lane's elements above `high` measure, and those above `low` of the others, which
  /// are those of the mask.
  __device__ __forceinline__ uint32_t AddWithin(const Lane& x, float low, float high,
                                                uint64_t& above, uint64_t& within) const {
    uint32_t mask = 0;
    if (Counts()) {
      uint32_t count = 0;
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) {
        const bool is_above = Order::IsAbove(x[i], high);
        count += is_above ? 1u : 0u;
        if (!is_above & Order::IsAbove(x[i], low)) mask += 1u << i;
      }
      above += count;
      within += static_cast<uint32_t>(__popc(mask));
      return mask;
    }
    if constexpr (kWeighs) mask = WeighWithin(x, low, high, weights.Anew(), above, within);
    return mask;
  }
  /// The same of weights, which `weigh(element)` says.
  template <class Weigh>
  __device__ __forceinline__ uint32_t WeighWithin(const Lane& x, float low, float high,
                                                  const Weigh& weigh, uint64_t& above,
                                                  uint64_t& within) const {
    uint32_t mask = 0;
    float parts[2] = {};
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const float w = weigh(x[i]);
      const bool is_above = x[i] > high;
      const bool is_within = !is_above & (x[i] > low);
      if (is_above) parts[0] += w;
      if (is_within) parts[1] += w, mask += 1u << i;
    }
    above += weights.Quantise(parts[0]);
    within += weights.Quantise(parts[1]);
    return mask;
  }
  /// The lane's elements above `low`.
  __device__ __forceinline__ static uint32_t MaskAbove(const Lane& x, float low) {
    uint32_t mask = 0;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      if (Order::IsAbove(x[i], low)) mask += 1u << i;
    }
    return mask;
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
      centre = (log(target) - hi) * ptx::rcp_approx(log(b.above_lo) - hi);
      reach = flank;
      centre = fminf(fmaxf(centre, reach), 1.0f - reach);
      flank = 0.0625f;
    }
    spread.by_value = b.by_value && stalls < 2;
    for (int p = 0; p < kPivots; ++p) {
      keys[p] = PivotAt(spread, centre + static_cast<float>(p - 1) * reach, b);
    }
  }

  /// The same of `count` elements that are about as dense everywhere: so close to the place that
  /// the measure points to that few are left between two pivots.
  __device__ __forceinline__ void ChooseAmong(const Bracket& b, uint64_t target, uint32_t count,
                                              int32_t (&keys)[kPivots]) {
    float centre = 0.5f;
    float reach = 0.25f;
    if (stalls == 0 && b.above_lo > target && target > b.above_hi) {
      centre = static_cast<float>(target - b.above_hi) *
               ptx::rcp_approx(static_cast<float>(b.above_lo - b.above_hi));
      reach = 1.5f * ptx::RsqrtApprox(static_cast<float>(count));
      centre = fminf(fmaxf(centre, reach), 1.0f - reach);
    }
    Bracket spread = b;
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

/// By what is above each key.
template <int kSize>
__device__ __forceinline__ void Narrow(Bracket& b, uint64_t target, const int32_t (&keys)[kSize],
                                       const uint64_t (&above)[kSize]) {
#pragma unroll
  for (int p = 0; p < kSize; ++p) {
    if (above[p] >= target) {
      if (keys[p] > b.lo) b.lo = keys[p], b.above_lo = above[p];
    } else if (keys[p] < b.hi) {
      b.hi = keys[p], b.above_hi = above[p];
    }
  }
}

/// A bound of the elements in a bracket that are above 0, or -infinity.
template <class MeasureType>
__device__ __forceinline__ uint64_t MostWithin(const Bracket& b, const MeasureType& measure) {
  const uint64_t all = b.above_lo - b.above_hi;
  if (measure.Counts()) return all;
  const uint64_t least = measure.Of(MeasureType::Order::ElementOf(b.lo));
  // Sums of floats may be a little short.
  const float bound =
      1.001f * static_cast<float>(all) * ptx::rcp_approx(static_cast<float>(least)) + 1.0f;
  return bound <= 0x1p31f ? static_cast<uint64_t>(bound) : kAllTies;
}

/// The end of a prefix: its last value, and what is above that.
struct End {
  float value;
  uint64_t above;
};

}  // namespace flashinfer::kernels::sampling
