// SPDX-License-Identifier: Apache-2.0
// Top-k selection: a cluster of blocks takes a row, keeps it in registers, finds the cut and lists
// what is above it by index; then one block sorts the list where that is wanted. Of a long row
// nothing is kept: one pass lists what is above a forecast, and the cut is found in that list.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/sampling/topk_lister.cuh"
#include "kernels/sampling/topk_rows.cuh"
#include "kernels/sampling/topk_sort.cuh"
#include "kernels/sampling/topk_spec.h"
#include "kernels/sampling/vocabulary_cut.cuh"

namespace flashinfer::kernels::topk_simt {

using namespace sampling;

template <TopKSpec kSpec>
struct Traits : RowTraits<TopKSpec, kSpec, KeyOrder> {
  static constexpr TopKSpec kS = kSpec;
  static_assert(kSpec.sort_size >= 0 && kSpec.sort_size <= 4096 &&
                    (kSpec.sort_size & (kSpec.sort_size - 1)) == 0,
                "sort_size must be 0 or a power of two up to 4096");
  struct SharedStorage {
    [[no_unique_address]] typename Traits::SharedChunks chunks;
    CutSearchStorage<Traits> search;
    typename Traits::Exchange::Storage exchange;
    uint32_t num_sent[4];  ///< to be sorted; of the first block
    uint64_t sorted[kSpec.sort_size > 0 ? kSpec.sort_size : 2];
  };
  static_assert(sizeof(SharedStorage) - (kSpec.sort_size > 0 ? 0 : 16) == SmemBytes(kSpec));
};

using CountMeasure = Measure<KeyOrder, Weights<true>, true, false>;
__device__ __forceinline__ CountMeasure Counting() { return {Weights<true>(0.0f, 1.0f, 1), true}; }

/// The cut that keeps `count` of `size` elements, 1 or more; of a row of which nothing is kept, by
/// one pass where a forecast of it is right.
template <class T, class RowType>
__device__ __forceinline__ Cut StreamedCutOf(const RowType& row, typename T::Exchange& exchange,
                                             CutSearch<T, RowType>& search,
                                             CutSearchStorage<T>& storage, uint32_t size,
                                             uint32_t count) {
  const Guess guess = ForecastOfKth<T>(row, size, count, KeyOrder::kNothing, storage);
  const float low = KeyOrder::ElementOf(guess.lo);
  int32_t max = KeyOrder::kNothing;
  uint64_t words[2] = {0, 0};  // maximum, count
  row.ForEachChunk([&](uint32_t chunk, const Lane& x) {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      max = KeyOrder::KeyOf(x[i]) > max ? KeyOrder::KeyOf(x[i]) : max;
    }
    words[1] += search.AddBefore(chunk, CountMeasure::MaskAbove(x, low));
  });
  words[0] = UnsignedKey(max);
  exchange.Reduce(words, MaximaAndSums<1>());
  if (count >= size) return {KeyOrder::ElementOf(KeyOrder::kNothing), 0, 0};
  const int32_t highest = SignedKey(static_cast<uint32_t>(words[0]));
  const Listing listing{.lo = guess.lo,
                        .hi = guess.hi,
                        .above = 0,
                        .within = words[1],
                        .count = words[1],
                        .is_made = guess.lo < guess.hi};
  const Bracket all{KeyOrder::kNothing, highest, size, 0, true};
  const End end = search.Find(all, count, Counting(),
                              {.guess = {all.lo, all.hi, kAllTies},
                               .listing = listing,
                               .wants_all = false,
                               .is_listed = false});
  return {.value = end.value, .num_ties = count - end.above, .skip_ties = 0};
}

/// How many of the first list are kept by a cut that `count` elements are left of, ties that are
/// left out among them; 0 where the list does not have them all, or `most` are fewer.
template <class T, class RowType>
__device__ __forceinline__ uint32_t NumListed(CutSearch<T, RowType>& search, const Cut& cut,
                                              uint32_t most) {
  if (!search.has_first_list()) return 0;
  const float below = KeyOrder::ElementOf(KeyOrder::KeyOf(cut.value) - 1);
  const uint64_t n = search.MeasureListed(below, Counting());
  return n <= most ? static_cast<uint32_t>(n) : 0;
}

/// The cut that keeps `count` of `size` elements, 1 or more.
template <class T, class RowType>
__device__ __forceinline__ Cut CutOf(const RowType& row, typename T::Exchange& exchange,
                                     CutSearch<T, RowType>& search, const BoundPlan& plan,
                                     uint32_t size, uint32_t count) {
  int32_t max = KeyOrder::kNothing;
  row.ForEachChunk([&](uint32_t, const Lane& x) {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      max = KeyOrder::KeyOf(x[i]) > max ? KeyOrder::KeyOf(x[i]) : max;
    }
  });
  uint64_t words[2] = {UnsignedKey(max), plan.Word<typename T::Exchange>(UnsignedKey(max))};
  exchange.Reduce(words, MaxOf());
  if (count >= size) return {KeyOrder::ElementOf(KeyOrder::kNothing), 0, 0};
  const int32_t highest = SignedKey(static_cast<uint32_t>(words[0]));
  const Bracket all{KeyOrder::kNothing, highest, size, 0, true};
  const End end = search.Find(all, count, Counting(),
                              {.guess = plan.GuessOf(words[1], highest),
                               .listing = {},
                               .wants_all = false,
                               .is_listed = false});
  return {.value = end.value, .num_ties = count - end.above, .skip_ties = 0};
}

template <TopKSpec kSpec>
__device__ __forceinline__ void Run(const TopKParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  if (threadIdx.x == 0) shared.num_sent[0] = 0;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int64_t index = blockIdx.x / T::kCluster;
  // Nobody has checked these: what is outside of the row is cut off.
  const auto clamp = [](int64_t x, int64_t most) { return x < 0 ? 0 : x < most ? x : most; };
  const int64_t start = clamp(p.row_starts[index], p.rows.size);
  const int64_t length = clamp(p.lengths[index], p.rows.size - start);
  const auto count = static_cast<int32_t>(length < p.k ? length : p.k);
  const KeysInMemory<T> source{
      .data = tile::At<kSpec.dtype>(p.rows.data, index * p.rows.stride + start),
      .size = static_cast<uint32_t>(length)};
  const Row<T, KeysInMemory<T>> row(source, p.rows.chunks_per_warp, shared.chunks.bytes);
  typename T::Exchange exchange(shared.exchange);
  const Output<T> output{p, index};
  const auto kept = static_cast<uint32_t>(count > 0 ? count : 1);
  CutSearch<T, Row<T, KeysInMemory<T>>> search(row, exchange, shared.search);
  uint32_t num_items = 0;  // to be sorted from the list of the search; 0: not from there
  Cut cut;
  if constexpr (T::kStreams) {
    cut = StreamedCutOf<T>(row, exchange, search, shared.search, source.size, kept);
    if (kSpec.sort_size > 0 && !p.takes_highest && count > 0) {
      num_items = NumListed<T>(search, cut, kSpec.sort_size);
    }
  } else {
    cut = CutOf<T>(row, exchange, search, BoundPlan::Of(kept, source.size, p.rows.chunks_per_warp),
                   source.size, kept);
  }
  if (num_items > 0) {
    SendListed<T>(search.list(), cut.value, shared.num_sent, shared.sorted);
  } else if (count > 0) {
    KeptLister<T> lister(cut);
    lister.Count(row, exchange, p.takes_highest);
    lister.List(row, [&](int32_t place, uint32_t column) {
      if constexpr (kSpec.sorts_output) {
        output.SetIndex(place, column);
      } else {
        const int32_t key = KeyOfValue(tile::LoadElement<kSpec.dtype>(source.data, column));
        if constexpr (kSpec.sort_size > 0) {
          SendToSort<T>(shared.sorted, place, SortItem(key, column));
        } else {
          output.Write(place, column, key);
        }
      }
    });
  }
  if constexpr (kSpec.sort_size > 0 || kSpec.sorts_output) T::Exchange::Barrier();
  if (T::Exchange::BlockRank() != 0) return;
  if constexpr (kSpec.sort_size > 0) {
    SortShared<kSpec.block_threads>(shared.sorted,
                                    num_items > 0 ? static_cast<int32_t>(num_items) : count);
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kSpec.block_threads) {
      output.Write(i, ColumnOfItem(shared.sorted[i]), KeyOfItem(shared.sorted[i]));
    }
  } else if constexpr (kSpec.sorts_output) {
    const auto item_at = [&](int32_t i) {
      const int64_t column = output.Index(i);
      return SortItem(KeyOfValue(tile::LoadElement<kSpec.dtype>(source.data, column)),
                      static_cast<uint32_t>(column));
    };
    SortInPlace<kSpec.block_threads>(
        count, item_at, [&](int32_t i, uint64_t item) { output.SetIndex(i, ColumnOfItem(item)); });
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kSpec.block_threads) {
      const uint64_t item = item_at(i);
      output.Write(i, ColumnOfItem(item), KeyOfItem(item));
    }
  }
  for (int32_t i = count + static_cast<int32_t>(threadIdx.x); i < p.k; i += kSpec.block_threads) {
    output.WriteNothing(i);
  }
}

}  // namespace flashinfer::kernels::topk_simt
