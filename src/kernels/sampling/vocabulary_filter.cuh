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

template <class T, bool kSamples>
struct FilterStorage {
  CutSearchStorage search;
  SampleStorage<T> sample;
};
template <class T>
struct FilterStorage<T, false> {
  CutSearchStorage search;
};

/// Top-k and top-p of a row. Top-k is first searched for, then top-p, by the same code.
template <bool kAreLogits, bool kHasTopK, bool kHasTopP, class T, class RowType>
class Filters {
 public:
  using Weights = sampling::Weights<kAreLogits>;
  using Measure = sampling::Measure<typename T::Order, Weights, kHasTopK, kHasTopP>;
  using Storage = FilterStorage<T, kHasTopP>;

  __device__ __forceinline__ Filters(const RowType& row, typename T::Exchange& exchange,
                                     Storage& storage, const VocabularyRowsParams& rows,
                                     const RowFilters& f)
      : row_(row),
        exchange_(exchange),
        storage_(storage),
        search_(row, exchange, storage.search),
        size_(rows.size),
        f_(f) {
    has_top_k_ = kHasTopK && f.top_k > 0 && f.top_k < rows.size;
    if (has_top_k_) {
      bound_ = BoundPlan::Of(static_cast<uint32_t>(f.top_k), static_cast<uint32_t>(rows.size),
                             rows.chunks_per_warp);
    }
    if constexpr (kHasTopP) Sample<T>(storage.sample).Clear();
  }

  /// What is known of the row before the search.
  __device__ __forceinline__ Survey Look() {
    if constexpr (kHasTopP && !kAreLogits) {
      Sample<T> sample(storage_.sample);
      return WeighedSurveyOf<T>(row_, exchange_, bound_, size_, sample);
    } else {
      return SurveyOf<kAreLogits, T>(row_, exchange_, bound_);
    }
  }

  /// Of a row that is a distribution.
  __device__ __forceinline__ Cut CutOf(const Survey& survey, const Weights& weights) {
    Cut cut{.value = -kInfinity, .num_ties = 0, .skip_ties = 0};
    const bool has_top_p = kHasTopP && f_.top_p < 1.0f;
    // Top-p looks among the elements that top-k lists.
    const bool are_few = has_top_k_ && f_.top_k <= kMaxCandidates;
    const int32_t max = OrderedKey(survey.extremes.max);
    Measure measure{weights, true};
    Bracket b{.lo = kAreLogits ? FloatOrder::kNothing : -1,  // just below 0
              .hi = max,
              .above_lo = static_cast<uint64_t>(size_),
              .above_hi = 0,
              .by_value = kAreLogits};
#pragma unroll 1
    for (int stage = has_top_k_ ? 0 : 1; stage < (has_top_p ? 2 : 1); ++stage) {
      measure.is_count = stage == 0;
      uint64_t target = static_cast<uint64_t>(f_.top_k);
      Guess guess{b.lo, max, kAllTies};
      if (stage == 0) {
        guess = bound_.GuessOf(survey.bound, max);
      } else if constexpr (kHasTopP) {
        if (has_top_k_ && !are_few) T::Exchange::Barrier();
        const uint64_t kept = has_top_k_ ? KeptWeight(cut, are_few, measure) : 0;
        const uint64_t total = has_top_k_ && !f_.is_joint ? kept : TotalOf(survey, weights);
        target = CeilOfProduct(total, fmaxf(f_.top_p, 0.0f));
        if (target == 0) target = 1;
        if (are_few && kept < target) break;
        SetBracket(b, cut, are_few ? kept : total, target, measure);
        if (!has_top_k_ || (f_.is_joint && !are_few)) {
          guess = Sample<T>(storage_.sample).GuessOf(total - target, weights, {b.lo, b.hi, 0});
        }
      }
      const End end = search_.Find(b, target, measure, guess, stage == 0 && has_top_p && are_few,
                                   stage == 1 && are_few);
      const Cut found{end.value, TiesToReach(target, end.above, measure.Of(end.value)), 0};
      if (stage == 0 || !has_top_k_ || IsShorter(found, cut)) cut = found;
    }
    return cut;
  }

 private:
  /// What top-k keeps.
  __device__ __forceinline__ uint64_t KeptWeight(const Cut& cut, bool are_few,
                                                 const Measure& measure) {
    const uint64_t above = are_few ? search_.MeasureListed(cut.value, measure)
                                   : MeasureAbove(row_, measure, cut.value, exchange_);
    return above + cut.num_ties * measure.Of(cut.value);
  }

  __device__ __forceinline__ uint64_t TotalOf(const Survey& survey, const Weights& weights) {
    if constexpr (!kAreLogits) return survey.total;
    Sample<T> sample(storage_.sample);
    return Weigh<T>(row_, exchange_, weights, sample);
  }

  /// The bracket of top-p, where all elements from `cut` on weigh `most`.
  __device__ __forceinline__ void SetBracket(Bracket& b, const Cut& cut, uint64_t most,
                                             uint64_t target, const Measure& measure) const {
    // Elements of less than a share of what is to be left out can all be left out.
    const float share = 0.98f * static_cast<float>(most - target) / static_cast<float>(size_);
    int32_t lo = OrderedKey(measure.weights.ValueOf(share / measure.weights.unit));
    if (has_top_k_ && OrderedKey(cut.value) - 1 > lo) lo = OrderedKey(cut.value) - 1;
    b.lo = lo < b.hi ? lo : b.hi - 1;
    b.above_lo = most;
  }

  const RowType& row_;
  typename T::Exchange& exchange_;
  Storage& storage_;
  CutSearch<T, RowType> search_;
  int32_t size_;
  RowFilters f_;
  BoundPlan bound_;
  bool has_top_k_;
};

}  // namespace flashinfer::kernels::sampling
