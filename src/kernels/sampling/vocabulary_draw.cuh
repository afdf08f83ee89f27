// SPDX-License-Identifier: Apache-2.0
// The token at which the cumulative weight of what a cut keeps, in vocabulary order, reaches a
// share of the whole.
#pragma once

#include "core/philox.h"
#include "kernels/sampling/vocabulary_filter.cuh"

namespace flashinfer::kernels::sampling {

/// A row's random word.
__device__ __forceinline__ uint32_t RandomWord(const RandomParams& p, int64_t row,
                                               int64_t position = 0) {
  return PhiloxWord(static_cast<uint64_t>(p.seed[row]),
                    p.has_own_seeds ? 0 : static_cast<uint64_t>(row),
                    static_cast<uint64_t>(p.offset[row]) + static_cast<uint64_t>(position));
}

/// The least cumulative weight that reaches (word + 1) / 2^32 of `total`, which is below 2^62.
__device__ __forceinline__ uint64_t DrawTarget(uint64_t total, uint32_t word) {
  const uint64_t uniform = uint64_t{word} + 1;
  const uint64_t low = (total & 0xffffffffu) * uniform;
  return (total >> 32) * uniform + (low >> 32) + ((low & 0xffffffffu) != 0 ? 1 : 0);
}

/// A chunk in vocabulary order.
using StagedChunk = float[kChunkElements];

template <class T>
__device__ __forceinline__ void Stage(const Lane& x, StagedChunk& staged) {
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) staged[ColumnOf<T>(0, i)] = x[i];
}

/// The place in a chunk where its kept weight reaches `target`, by one warp. `tie_rank` is that of
/// the chunk's first tie.
template <class Weights>
__device__ __forceinline__ uint32_t Locate(const StagedChunk& staged, const Cut& cut,
                                           const Weights& weights, uint64_t tie_rank,
                                           uint64_t target) {
  const uint32_t lane = threadIdx.x % 32;
  const float* x = staged + lane * kLaneElements;
  uint32_t ties = 0;
  for (int i = 0; i < kLaneElements; ++i) ties += x[i] == cut.value ? 1u : 0u;
  const TieRange range(cut, tie_rank + WarpScan(ties) - ties);
  uint32_t tie = 0;
  Lane kept;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const bool is_tie = x[i] == cut.value;
    const bool is_kept = x[i] > cut.value || (is_tie && range.Has(tie));
    tie += is_tie ? 1u : 0u;
    kept[i] = is_kept ? weights(x[i]) : 0.0f;
    sum += kept[i];
  }
  const uint64_t weight = weights.Quantise(sum);
  const uint64_t to_here = WarpScan(weight);
  // The chunk's weight was summed in another order: rounding may leave it short of the target.
  const uint32_t reached = __ballot_sync(tile::kFullWarp, to_here >= target && sum > 0);
  const uint32_t some = __ballot_sync(tile::kFullWarp, sum > 0);
  const int winner = reached != 0 ? __ffs(static_cast<int>(reached)) - 1 : 31 - __clz(some);
  const uint64_t before = to_here - weight;
  uint32_t place = 0;
  float so_far = 0;
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    if (kept[i] > 0 && (so_far == 0 || before + weights.Quantise(so_far) < target)) {
      place = lane * kLaneElements + i;
    }
    so_far += kept[i];
  }
  return __shfl_sync(tile::kFullWarp, place, winner);
}

/// Finds the chunk in which a warp's kept weight reaches a target.
template <class T, class Weights>
struct ChunkFinder {
  const Cut& cut;
  const Weights& weights;
  uint64_t tie_weight;
  uint64_t tie_rank;  ///< of the next chunk's first tie
  uint64_t target;    ///< from the next chunk on
  uint32_t chosen = 0;
  bool is_staged = false;

  /// Looks at the next chunk.
  __device__ __forceinline__ void Look(uint32_t chunk, const Lane& x, const Mass& part,
                                       StagedChunk& staged) {
    const uint64_t ties = WarpSum64(part.num_ties);
    const uint64_t mass =
        WarpSum64(part.above) + KeptTies(cut, tie_rank, tie_rank + ties) * tie_weight;
    is_staged = mass >= target;
    if (is_staged) {
      chosen = chunk;
      Stage<T>(x, staged);
    } else {
      target -= mass;
      tie_rank += ties;
    }
  }
  template <class WriteType>
  __device__ __forceinline__ void WriteToken(const StagedChunk& staged,
                                             const WriteType& write) const {
    __syncwarp();
    const uint32_t place = Locate(staged, cut, weights, tie_rank, target);
    if (threadIdx.x % 32 == 0) write(chosen * kChunkElements + place);
  }
};

/// Calls `write(token)` in one thread of the row.
template <class T, class Weights, class RowType, class Write>
__device__ __forceinline__ void Draw(const RowType& row, typename T::Exchange& exchange,
                                     StagedChunk& staged, const Cut& cut, const Weights& weights,
                                     uint32_t word, const Write& write) {
  const Kept kept(MassOfWarp(row, cut, weights), exchange, cut, weights);
  const uint64_t target = DrawTarget(kept.total, word);
  if (target <= kept.before || target > kept.before + kept.weight) return;
  // This warp has the token: first its chunk.
  ChunkFinder<T, Weights> finder{cut, weights, kept.tie_weight, kept.tie_rank,
                                 target - kept.before};
  row.ForEachChunk([&](uint32_t chunk, const Lane& x) {
    if (!finder.is_staged) finder.Look(chunk, x, MassOf(x, cut, weights), staged);
  });
  finder.WriteToken(staged, write);
}

/// Where the token of a row is searched for of which nothing is kept.
template <int kWarps>
struct DrawStorage {
  uint64_t target;
  uint64_t tie_rank;
  uint32_t first_chunk;
  uint32_t is_here;
  alignas(16) uint64_t by_warp[kWarps][2];
};
template <>
struct DrawStorage<0> {};

/// The same for a row of which nothing is kept: all warps of the block that has the token read what
/// one warp has of the row, in parts. `filters` made the cut.
template <class T, class Weights, class RowType, class FiltersType, class Write>
__device__ __forceinline__ void DrawStreamed(const RowType& row, typename T::Exchange& exchange,
                                             DrawStorage<T::kWarps>& storage, StagedChunk& staged,
                                             const FiltersType& filters, const Cut& cut,
                                             const Weights& weights, uint32_t word,
                                             const Write& write) {
  static_assert(sizeof(storage) == DrawBytes(T::kWarps * 32, T::kResident));
  if (threadIdx.x == 0) storage.is_here = 0;
  const Kept kept(filters.MassOfWarp(cut, weights), exchange, cut, weights);
  const uint64_t target = DrawTarget(kept.total, word);
  const bool has_token = target > kept.before && target <= kept.before + kept.weight;
  const uint32_t warp = threadIdx.x / 32;
  if (has_token && threadIdx.x % 32 == 0) {
    storage.target = target - kept.before;
    storage.tie_rank = kept.tie_rank;
    storage.first_chunk = row.chunk(0);
    storage.is_here = 1;
  }
  __syncthreads();
  if (storage.is_here == 0) return;
  const uint32_t size = (static_cast<uint32_t>(row.count()) + T::kWarps - 1) / T::kWarps;
  const uint32_t all = storage.first_chunk + static_cast<uint32_t>(row.count());
  const uint32_t first = storage.first_chunk + warp * size;
  Mass mine{0, 0};
#pragma unroll 2
  for (uint32_t i = 0; i < size; ++i) {
    if (first + i >= all) break;
    Lane x;
    row.ReadChunk(first + i, x);
    const Mass part = filters.MassOfChunk(x, cut, weights);
    mine.above += part.above;
    mine.num_ties += part.num_ties;
  }
  mine = {WarpSum64(mine.above), WarpSum64(mine.num_ties)};
  if (threadIdx.x % 32 == 0) {
    storage.by_warp[warp][0] = mine.above;
    storage.by_warp[warp][1] = mine.num_ties;
  }
  __syncthreads();
  uint64_t tie_rank = storage.tie_rank;
  uint64_t before = 0;
  for (uint32_t w = 0; w < warp; ++w) {
    const uint64_t ties = storage.by_warp[w][1];
    before += storage.by_warp[w][0] + KeptTies(cut, tie_rank, tie_rank + ties) * kept.tie_weight;
    tie_rank += ties;
  }
  const uint64_t weight =
      mine.above + KeptTies(cut, tie_rank, tie_rank + mine.num_ties) * kept.tie_weight;
  if (storage.target <= before || storage.target > before + weight) return;
  ChunkFinder<T, Weights> finder{cut, weights, kept.tie_weight, tie_rank, storage.target - before};
#pragma unroll 1
  for (uint32_t i = 0; !finder.is_staged; ++i) {
    Lane x;
    row.ReadChunk(first + i, x);
    finder.Look(first + i, x, filters.MassOfChunk(x, cut, weights), staged);
  }
  finder.WriteToken(staged, write);
}

}  // namespace flashinfer::kernels::sampling
