// SPDX-License-Identifier: Apache-2.0
// Top-k, top-p and min-p as one cut of a row.
#pragma once

#include "kernels/sampling/vocabulary_cut.cuh"
#include "kernels/sampling/vocabulary_kept.cuh"

namespace flashinfer::kernels::sampling {

/// Of one row; a value outside its range switches the filter off, or is taken as the nearest.
struct RowFilters {
  int32_t top_k;
  float top_p;
  bool is_joint;
};

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
  CutSearchStorage<T> search;
  SampleStorage<T> sample;
};
template <class T>
struct FilterStorage<T, false> {
  CutSearchStorage<T> search;
};

/// Top-k and top-p of a row. Top-k is first searched for, then top-p, by the same code.
template <bool kAreLogits, bool kHasTopK, bool kHasTopP, class T, class RowType>
class Filters {
 public:
  using Weights = sampling::Weights<kAreLogits>;
  using Measure = sampling::Measure<typename T::Order, Weights, kHasTopK, kHasTopP>;
  using Storage = FilterStorage<T, kHasTopP>;
  /// Forecasts are of the whole row in each block.
  static constexpr bool kForecasts = T::kStreams;
  static constexpr bool kForecastsTopP = kForecasts && kHasTopP && !kAreLogits;
  using SampleType =
      Sample<T, kForecastsTopP ? kForecastEvery : 4, kForecastsTopP || T::kCluster == 1>;

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
    are_few_ = has_top_k_ && f.top_k <= kMaxCandidatesOf<T>;
    if constexpr (kHasTopP) SampleType(storage.sample).Clear();
  }

  static constexpr int32_t kLowest = kAreLogits ? FloatOrder::kNothing : -1;  ///< or just below 0

  /// What is known of the row before the search.
  __device__ __forceinline__ Survey Look() {
    if constexpr (kForecasts) {
      return LookAndList();
    } else if constexpr (kHasTopP && !kAreLogits) {
      SampleType sample(storage_.sample);
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
    const bool are_few = are_few_;
    const int32_t max = OrderedKey(survey.extremes.max);
    Measure measure{weights, true};
    Bracket b{.lo = kLowest,
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
        if (!kForecasts) guess = bound_.GuessOf(survey.bound, max);
      } else if constexpr (kHasTopP) {
        if (has_top_k_ && !are_few) T::Exchange::Barrier();
        const uint64_t kept = has_top_k_ ? KeptWeight(cut, are_few, measure) : 0;
        const uint64_t total = has_top_k_ && !f_.is_joint ? kept : TotalOf(survey, weights);
        target = CeilOfProduct(total, fmaxf(f_.top_p, 0.0f));
        if (target == 0) target = 1;
        if (are_few && kept < target) break;
        SetBracket(b, cut, are_few ? kept : total, target, measure);
        if (!listing_.is_made && has_sample_ && (!has_top_k_ || (f_.is_joint && !are_few))) {
          guess = SampleType(storage_.sample).GuessOf(total - target, weights, {b.lo, b.hi, 0});
        }
      }
      Listing listing = listing_;
      listing.is_made = listing_.is_made && stage == (has_top_k_ ? 0 : 1);
      const End end = search_.Find(b, target, measure,
                                   {.guess = guess,
                                    .listing = listing,
                                    .wants_all = stage == 0 && has_top_p && are_few,
                                    .is_listed = stage == 1 && are_few});
      const Cut found{end.value, TiesToReach(target, end.above, measure.Of(end.value)), 0};
      if (stage == 0 || !has_top_k_ || IsShorter(found, cut)) cut = found;
    }
    return cut;
  }

  /// What this warp's chunks hold of a cut: from the list where that has all that matters.
  __device__ __forceinline__ Mass MassOfWarp(const Cut& cut, const Weights& weights) const {
    if constexpr (kForecasts) {
      if (HasListed(cut)) return ListedMassOfWarp(cut, weights);
    }
    return sampling::MassOfWarp(row_, cut, weights);
  }
  /// MassOfWarp() of one chunk, in just the same way.
  __device__ __forceinline__ Mass MassOfChunk(const Lane& x, const Cut& cut,
                                              const Weights& weights) const {
    if (kForecasts && HasListed(cut)) {
      return MassOfParts(x, cut, FloatOrder::ElementOf(listing_.hi), weights);
    }
    return MassOf(x, cut, weights);
  }

 private:
  /// Whether all elements from the cut on are above the list, or in it.
  __device__ __forceinline__ bool HasListed(const Cut& cut) const {
    const int32_t key = OrderedKey(cut.value);
    return search_.has_first_list() && key > listing_.lo && key <= listing_.hi;
  }

  __device__ __forceinline__ Mass ListedMassOfWarp(const Cut& cut, const Weights& weights) const {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t begin = row_.chunk(0) * kChunkElements;
    const uint32_t size = static_cast<uint32_t>(row_.count()) * kChunkElements;
    uint64_t above = 0;
    uint32_t ties = 0;
    search_.list().ForEachOwn(lane, 32, [&](uint32_t column, float value) {
      if (column - begin >= size) return;
      if (value > cut.value) above += weights.Quantise(weights(value));
      ties += value == cut.value ? 1u : 0u;
    });
    return {above_list_ + WarpSum64(above), WarpSum64(ties)};
  }

  /// Where the first search lists, before the pass that does so. Top-p of what is no distribution,
  /// whose sum is not 1, will not be there.
  __device__ __forceinline__ Guess Forecast() {
    Guess guess = kNoGuess;
    if (are_few_) {
      guess = ForecastOfKth<T>(row_, static_cast<uint32_t>(size_), static_cast<uint32_t>(f_.top_k),
                               kLowest, storage_.search);
    }
    if constexpr (kForecastsTopP) {
      if (!are_few_ && f_.top_p < 1.0f) {
        SampleType sample(storage_.sample);
        ForEachForecast<T>(row_, static_cast<uint32_t>(size_), [&](float x) { sample.Add(x); });
        has_sample_ = true;
        if (!has_top_k_) {
          const Weights weights(1.0f, 1.0f, size_);
          guess = sample.GuessOf(weights.Quantise(1.0f - fmaxf(f_.top_p, 0.0f)), weights,
                                 {kLowest, kHighestKey, 0});
        }
      }
    }
    return guess;
  }

  /// One pass: the extremes of the row, its weight where that is needed, and a list of what lies
  /// near the first cut.
  __device__ __forceinline__ Survey LookAndList() {
    const Guess guess = Forecast();
    listing_.lo = guess.lo;
    listing_.hi = guess.hi;
    listing_.is_made = guess.lo < guess.hi;
    const float low = FloatOrder::ElementOf(guess.lo);
    const float high = FloatOrder::ElementOf(guess.hi);
    const Measure measure{Weights(1.0f, 1.0f, size_), has_top_k_};
    LaneExtremes<kAreLogits> extremes;
    uint64_t words[5] = {};  // extremes; count, above, within; weight
    row_.ForEachChunk([&](uint32_t chunk, const Lane& x) {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) extremes.Add(x[i]);
      if constexpr (kForecastsTopP) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kLaneElements; ++i) sum += x[i];
        words[4] += measure.weights.Quantise(sum);
      }
      uint32_t mask = 0;
      if (!kForecastsTopP || has_top_k_) {
        mask = Measure::MaskAbove(x, low);
      } else {
        const auto itself = [](float element) { return element; };
        mask = measure.WeighWithin(x, low, high, itself, words[2], words[3]);
      }
      words[1] += search_.AddBefore(chunk, mask);
    });
    const uint32_t key = UnsignedKey(OrderedKey(extremes.max + 0.0f));  // no -0
    words[0] = (uint64_t{extremes.is_bad} << 32) | key;
    above_list_ = kForecastsTopP ? WarpSum64(words[2]) : 0;
    exchange_.Reduce(words, MaximaAndSums<1>());
    listing_.count = words[1];
    listing_.above = words[2];
    listing_.within = has_top_k_ ? words[1] : words[3];
    const Survey survey{.extremes = {.max = FloatOfKey(SignedKey(static_cast<uint32_t>(words[0]))),
                                     .is_bad = words[0] >> 32 != 0},
                        .bound = 0,
                        .total = words[4]};
    if constexpr (kForecastsTopP) {
      const Extremes& e = survey.extremes;
      if (e.is_bad || !(e.max > 0.0f) || Weights(e.max, 1.0f, size_).factor == 1.0f) return survey;
      // Probabilities are not their own weights: once more, and without a list.
      search_.DropBefore();
      listing_.is_made = has_sample_ = false;
      NoSample none;
      return WeighedSurveyOf<T>(row_, exchange_, BoundPlan(), size_, none);
    }
    return survey;
  }

  /// What top-k keeps.
  __device__ __forceinline__ uint64_t KeptWeight(const Cut& cut, bool are_few,
                                                 const Measure& measure) {
    const uint64_t above = are_few ? search_.MeasureListed(cut.value, measure)
                                   : MeasureAbove(row_, measure, cut.value, exchange_);
    return above + cut.num_ties * measure.Of(cut.value);
  }

  __device__ __forceinline__ uint64_t TotalOf(const Survey& survey, const Weights& weights) {
    if constexpr (!kAreLogits) return survey.total;
    SampleType sample(storage_.sample);
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
  Listing listing_;
  uint64_t above_list_ = 0;  ///< what is above the first list, of this warp, weighs
  bool has_top_k_;
  bool are_few_;
  bool has_sample_ = !kForecastsTopP;
};

}  // namespace flashinfer::kernels::sampling
