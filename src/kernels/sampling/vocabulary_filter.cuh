// SPDX-License-Identifier: Apache-2.0
// Top-k, top-p and min-p as one cut of a row.
#pragma once

#include "kernels/sampling/vocabulary_cut.cuh"

namespace flashinfer::kernels::sampling {

/// Of one row; a value outside its range switches the filter off, or is taken as the nearest.
struct RowFilters {
  int32_t top_k;
  float top_p;
  bool is_joint;
};

/// The smallest integer that is at least `x` · `fraction`, a number from 0 to 1.
__device__ __forceinline__ uint64_t CeilOfProduct(uint64_t x, float fraction) {
  const uint32_t bits = __float_as_uint(fraction);
  const uint32_t exponent = bits >> 23;
  const uint64_t mantissa = (bits & 0x7fffffu) | (exponent == 0 ? 0u : 0x800000u);
  const uint32_t shift = 150 - (exponent == 0 ? 1 : exponent);  // 23 or more
  const uint64_t high = __umul64hi(x, mantissa);
  const uint64_t low = x * mantissa;
  if (shift < 64) {
    const bool has_rest = (low & ((1ull << shift) - 1)) != 0;
    return (high << (64 - shift)) + (low >> shift) + (has_rest ? 1 : 0);
  }
  // The product is below 2^86.
  if (shift >= 86) return (high | low) != 0 ? 1 : 0;
  const bool has_rest = low != 0 || (high & ((1ull << (shift - 64)) - 1)) != 0;
  return (high >> (shift - 64)) + (has_rest ? 1 : 0);
}

/// Elements below this weigh less than `min_p` of the largest.
template <bool kAreLogits>
__device__ __forceinline__ float LimitOfMinP(const Weights<kAreLogits>& weights, float min_p) {
  const float p = fminf(min_p, 1.0f);
  if (p == 1.0f) return weights.max;
  if constexpr (kAreLogits)
    return __fadd_ru(weights.max, __fdiv_ru(ptx::lg2_approx(p), weights.factor));
  return __fmul_ru(p, weights.max);
}

/// What is above a value, over the row.
template <class RowType, class MeasureType, class Exchange>
__device__ __forceinline__ uint64_t MeasureAbove(const RowType& row, const MeasureType& measure,
                                                 float value, Exchange& exchange) {
  const float pivots[1] = {value};
  uint64_t sums[1] = {0};
  row.ForEachChunk([&](uint32_t, const Lane& x) { measure.Add(x, pivots, sums); });
  exchange.Reduce(sums, SumOf());
  return sums[0];
}

/// How many ties of `value` a prefix of `target` takes, of which `above` are above it.
__device__ __forceinline__ uint64_t TiesToReach(uint64_t target, uint64_t above, uint64_t each) {
  if (each == 0) return kAllTies;
  return target > above ? (target - above + each - 1) / each : 1;
}

/// Top-k and top-p of a row that is a distribution. Top-k is first searched for, then top-p, by the
/// same code.
template <bool kAreLogits, bool kHasTopK, bool kHasTopP, class T, class RowType>
class Filters {
 public:
  using Weights = sampling::Weights<kAreLogits>;
  using Measure = sampling::Measure<typename T::Order, Weights, kHasTopK, kHasTopP>;
  using Search = CutSearch<T, RowType>;

  __device__ __forceinline__ Filters(const RowType& row, typename T::Exchange& exchange,
                                     CutSearchStorage& storage)
      : row_(row), exchange_(exchange), search_(row, exchange, storage) {}

  __device__ __forceinline__ Cut CutOf(const Extremes& extremes, const Weights& weights,
                                       uint32_t size, const RowFilters& f) {
    Cut cut{.value = -kInfinity, .num_ties = 0, .skip_ties = 0};
    const bool has_top_k = kHasTopK && f.top_k > 0 && f.top_k < size;
    Measure measure{weights, true};
    Bracket b{.lo = kAreLogits ? FloatOrder::kNothing : -1,  // just below 0
              .hi = OrderedKey(extremes.max),
              .above_lo = size,
              .above_hi = 0,
              .by_value = kAreLogits};
#pragma unroll 1
    for (int stage = has_top_k ? 0 : 1; stage < (kHasTopP && f.top_p < 1.0f ? 2 : 1); ++stage) {
      measure.is_count = stage == 0;
      uint64_t target = static_cast<uint64_t>(f.top_k);
      if (stage == 1) target = TargetOf(measure, cut, has_top_k, size, f, b);
      Bracket upper = b;
      upper.lo = stage == 0 ? extremes.min_of_max : b.hi;
      const End end = search_.Find(b, target, measure, upper);
      const Cut found{end.value, TiesToReach(target, end.above, measure.Of(end.value)), 0};
      if (stage == 0 || !has_top_k || IsShorter(found, cut)) cut = found;
    }
    return cut;
  }

 private:
  /// What top-p must reach, and where it does: `b` is changed.
  __device__ __forceinline__ uint64_t TargetOf(const Measure& measure, const Cut& cut,
                                               bool has_top_k, uint32_t size, const RowFilters& f,
                                               Bracket& b) {
    const bool is_of_kept = has_top_k && !f.is_joint;
    uint64_t total = MeasureAbove(row_, measure, is_of_kept ? cut.value : -kInfinity, exchange_);
    if (is_of_kept) total += cut.num_ties * measure.Of(cut.value);
    uint64_t target = CeilOfProduct(total, fmaxf(f.top_p, 0.0f));
    if (target == 0) target = 1;
    // Elements of less than a share of what is to be left out can all be left out.
    const uint64_t rest = total - target;
    int32_t lo = OrderedKey(
        measure.weights.ValueOf(0.98f * static_cast<float>(rest) / static_cast<float>(size)));
    if (has_top_k && OrderedKey(cut.value) - 1 > lo) lo = OrderedKey(cut.value) - 1;
    b.lo = lo < b.hi ? lo : b.hi - 1;
    b.above_lo = total;
    return target;
  }

  const RowType& row_;
  typename T::Exchange& exchange_;
  Search search_;
};

}  // namespace flashinfer::kernels::sampling
