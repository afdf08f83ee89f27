// SPDX-License-Identifier: Apache-2.0
// What a top-k selection keeps of a row, by index.
#pragma once

#include "kernels/sampling/vocabulary_kept.cuh"

namespace flashinfer::kernels::topk_simt {

using namespace sampling;

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
    LaneMasks masks[T::kStreams ? 1 : T::kResident] = {};
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

}  // namespace flashinfer::kernels::topk_simt
