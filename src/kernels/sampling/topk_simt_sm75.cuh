// SPDX-License-Identifier: Apache-2.0
// Top-k selection: a cluster of blocks takes a row, keeps it in registers, finds the cut and lists
// what is above it by index; then one block sorts the list where that is wanted.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/sampling/topk_sort.cuh"
#include "kernels/sampling/topk_spec.h"
#include "kernels/sampling/vocabulary_cut.cuh"
#include "kernels/sampling/vocabulary_kept.cuh"

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
    CutSearchStorage search;
    typename Traits::Exchange::Storage exchange;
    uint64_t sorted[kSpec.sort_size > 0 ? kSpec.sort_size : 2];
  };
  static_assert(sizeof(SharedStorage) - (kSpec.sort_size > 0 ? 0 : 16) == SmemBytes(kSpec));
};

__device__ __forceinline__ int32_t KeyOfValue(float x) {
  return x != x ? KeyOrder::kNan : OrderedKey(x + 0.0f);  // no -0
}

/// Rows in memory as keys; what is past the end is below all of them.
template <class T>
struct KeysInMemory {
  const char* data;
  uint32_t size;

  __device__ __forceinline__ void operator()(uint32_t chunk, Lane& x) const {
    LoadLane<T>(data, size, chunk, 0.0f, x);
    Finish(chunk, x);
  }
  __device__ __forceinline__ void Copy(uint32_t chunk, char* to) const {
    CopyLane<T>(data, size, chunk, to);
  }
  __device__ __forceinline__ void FromShared(uint32_t chunk, const char* from, Lane& x) const {
    LoadSharedLane<T>(from, size, chunk, 0.0f, x);
    Finish(chunk, x);
  }
  __device__ __forceinline__ float ElementAt(uint32_t column) const {
    return KeyOrder::ElementOf(KeyOfValue(tile::LoadElement<T::kDType>(data, column)));
  }
  __device__ __forceinline__ void Finish(uint32_t chunk, Lane& x) const {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) {
      const int32_t key = ColumnOf<T>(chunk, i) < size ? KeyOfValue(x[i]) : KeyOrder::kNothing;
      x[i] = KeyOrder::ElementOf(key);
    }
  }
};

/// Where a row's results go.
template <class T>
struct Output {
  const TopKParams& p;
  int64_t row;

  /// Place `at` without the index map, for a sort that follows.
  __device__ __forceinline__ void SetIndex(int32_t at, int64_t index) const {
    const int64_t to = row * p.indices_stride + at;
    if (p.indices_are_64_bit) {
      static_cast<int64_t*>(p.indices)[to] = index;
    } else {
      static_cast<int32_t*>(p.indices)[to] = static_cast<int32_t>(index);
    }
  }
  __device__ __forceinline__ int64_t Index(int32_t at) const {
    const int64_t from = row * p.indices_stride + at;
    return p.indices_are_64_bit ? static_cast<const int64_t*>(p.indices)[from]
                                : static_cast<const int32_t*>(p.indices)[from];
  }
  __device__ __forceinline__ void Write(int32_t at, int64_t index, int32_t key) const {
    SetIndex(at, Mapped(index));
    if (p.values == nullptr) return;
    const float value = key == KeyOrder::kNan ? __uint_as_float(0x7fffffffu) : FloatOfKey(key);
    tile::StoreElement<T::kDType>(p.values, row * p.values_stride + at, value);
  }
  /// Place `at` is past the last element.
  __device__ __forceinline__ void WriteNothing(int32_t at) const {
    SetIndex(at, -1);
    if (p.values == nullptr) return;
    tile::StoreElement<T::kDType>(p.values, row * p.values_stride + at, -kInfinity);
  }

 private:
  __device__ __forceinline__ int64_t Mapped(int64_t index) const {
    const TopKIndexMapParams& m = p.map;
    if (m.page_table == nullptr) return index + m.offset[row];
    int64_t request = row;
    if (m.row_to_request != nullptr) {
      const int64_t from = row * m.row_to_request_stride;
      request = m.requests_are_64_bit ? static_cast<const int64_t*>(m.row_to_request)[from]
                                      : static_cast<const int32_t*>(m.row_to_request)[from];
    }
    const int64_t page =
        m.page_table[request * m.page_table_row_stride + index / m.page_size * m.page_table_stride];
    return page * m.page_size + index % m.page_size;
  }
};

/// What a cut keeps of this warp's chunks, in order.
template <class T>
class KeptLister {
 public:
  __device__ __forceinline__ explicit KeptLister(const Cut& cut) : cut_(cut) {}

  /// Counts, and shares the counts out among the warps of the row.
  template <class RowType>
  __device__ __forceinline__ void Count(const RowType& row, typename T::Exchange& exchange,
                                        bool takes_highest) {
    uint64_t words[2] = {0, 0};  // above the cut, and equal to it
    row.ForEachChunk([&](uint32_t, const Lane& x) {
      const LaneMasks masks = MasksOf<KeyOrder>(x, cut_);
      words[0] += static_cast<uint32_t>(__popc(masks.above));
      words[1] += static_cast<uint32_t>(__popc(masks.ties));
    });
    words[0] = WarpSum64(words[0]);
    words[1] = WarpSum64(words[1]);
    has_some_ = words[0] + words[1] > 0;
    exchange.ReduceWarps(words, SumOf());
    if (takes_highest) cut_.skip_ties = words[1] - cut_.num_ties;
    above_ = exchange.Before(0);
    ties_ = exchange.Before(1);
  }

  /// Calls `visit(place, column)` for what is kept.
  template <class RowType, class Visit>
  __device__ __forceinline__ void List(const RowType& row, const Visit& visit) {
    if (!has_some_) return;
    LaneMasks masks[T::kResident];
    int resident = 0;
    row.ForEachResident(
        [&](uint32_t, const Lane& x) { masks[resident++] = MasksOf<KeyOrder>(x, cut_); });
#pragma unroll 1
    for (int i = 0; i < row.count(); ++i) {
      LaneMasks m = masks[0];
#pragma unroll
      for (int r = 1; r < T::kResident; ++r) {
        if (i == r) m = masks[r];
      }
      if (T::kHasMore && i >= T::kResident) {
        Lane x;
        row.Read(i, x);
        m = MasksOf<KeyOrder>(x, cut_);
      }
      if (__ballot_sync(tile::kFullWarp, (m.above | m.ties) != 0) == 0) continue;
#pragma unroll 1
      for (int first = 0; first < kLaneElements; first += T::kVec) {
        ListGroup(row.chunk(i), first, m, visit);
      }
    }
  }

 private:
  template <class Visit>
  __device__ __forceinline__ void ListGroup(uint32_t chunk, int first, const LaneMasks& m,
                                            const Visit& visit) {
    const uint32_t group = ((1u << T::kVec) - 1) << first;
    const uint32_t counts = static_cast<uint32_t>(__popc(m.above & group)) +
                            (static_cast<uint32_t>(__popc(m.ties & group)) << 16);
    const uint32_t to_here = WarpScan(counts);
    const uint64_t above = above_ + ((to_here - counts) & 0xffffu);
    const uint64_t rank = ties_ + ((to_here - counts) >> 16);
    const uint64_t kept_before = KeptTies(cut_, 0, rank);
    const TieRange range(cut_, rank);
    uint32_t tie = 0;
    uint32_t kept = 0;
    for (uint32_t left = (m.above | m.ties) & group; left != 0; left &= left - 1) {
      const int i = __ffs(static_cast<int>(left)) - 1;
      const bool is_tie = (m.ties >> i & 1) != 0;
      if (!is_tie || range.Has(tie)) {
        visit(static_cast<int32_t>(above + kept_before + kept), ColumnOf<T>(chunk, i));
        ++kept;
      }
      tie += is_tie ? 1u : 0u;
    }
    const uint32_t all = __shfl_sync(tile::kFullWarp, to_here, 31);
    above_ += all & 0xffffu;
    ties_ += all >> 16;
  }

  Cut cut_;
  uint64_t above_ = 0;  ///< before the next group
  uint64_t ties_ = 0;
  bool has_some_ = false;
};

/// The cut that keeps `count` of `size` elements, 1 or more.
template <class T, class RowType>
__device__ __forceinline__ Cut CutOf(const RowType& row, typename T::Exchange& exchange,
                                     CutSearchStorage& storage, const BoundPlan& plan,
                                     uint32_t size, uint32_t count) {
  CutSearch<T, RowType> search(row, exchange, storage);
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
  using CountMeasure = Measure<KeyOrder, Weights<true>, true, false>;
  const CountMeasure measure{Weights<true>(0.0f, 1.0f, 1), true};
  const End end = search.Find(all, count, measure, plan.GuessOf(words[1], highest), false, false);
  return {.value = end.value, .num_ties = count - end.above, .skip_ties = 0};
}

template <TopKSpec kSpec>
__device__ __forceinline__ void Run(const TopKParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
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
  const Cut cut =
      CutOf<T>(row, exchange, shared.search,
               BoundPlan::Of(kept, source.size, p.rows.chunks_per_warp), source.size, kept);
  if (count > 0) {
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
    SortShared<kSpec.block_threads>(shared.sorted, count);
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
