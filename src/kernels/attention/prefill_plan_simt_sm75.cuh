// SPDX-License-Identifier: Apache-2.0
// The plan of a batch's prefill, from lengths on the device: the pieces that the host would make,
// the costliest first, equal ones in no other order than that of rows and keys. One block: tiles of
// rows are counted, costed and cut by all threads, with a sum over all of them after each step;
// then pieces are placed by the class of their cost. Bound by the latency of these sums.
#pragma once

#include "kernels/attention/plan_block.cuh"
#include "kernels/attention/prefill_plan_spec.h"

namespace flashinfer::kernels::prefill_plan_simt {

template <PrefillPlanSpec kSpec>
struct Traits {
  static constexpr int kThreads = kSpec.block_threads;
  static constexpr int kWarps = kThreads / 32;

  struct SharedStorage {
    int64_t request_tiles[kSpec.max_requests];  ///< of requests up to this one
    int64_t warp_sums[32];
    int64_t class_sums[kCostClasses * kWarps];
    int32_t placed[kCostClasses * kWarps];
    int32_t largest[32];
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// Lengths as they are in memory. What Plan() on the host would refuse is taken for the nearest
/// that it accepts; a request whose pages or tokens end before they begin has none.
__device__ __forceinline__ int32_t Clamp(int32_t x, int32_t most) { return min(max(x, 0), most); }

__device__ __forceinline__ PrefillRequest RequestOf(const PrefillPlanParams& p, int32_t b) {
  const auto at = [](const int32_t* x, int64_t stride, int32_t i, int32_t most) {
    return Clamp(x[i * stride], most);
  };
  PrefillRequest r{};
  r.q_begin = b;
  r.q_len = 1;
  if (p.qo_indptr != nullptr) {
    r.q_begin = at(p.qo_indptr, p.qo_indptr_stride, b, p.max_tokens);
    r.q_len = max(0, at(p.qo_indptr, p.qo_indptr_stride, b + 1, p.max_tokens) - r.q_begin);
  }
  r.page_begin = at(p.indptr, p.indptr_stride, b, p.max_pages);
  const int32_t count = max(0, at(p.indptr, p.indptr_stride, b + 1, p.max_pages) - r.page_begin);
  if (count > 0) {
    const int32_t length = p.lengths[b * p.lengths_stride];
    r.kv_len = p.has_kv_len ? Clamp(length, count * p.page_size)
                            : (count - 1) * p.page_size + min(max(length, 1), p.page_size);
  }
  return r;
}

/// The first of n rising sums that is above x; n: none.
__device__ __forceinline__ int32_t FirstAbove(const int64_t* sums, int32_t n, int64_t x) {
  int32_t begin = 0;
  while (begin < n) {
    const int32_t middle = (begin + n) / 2;
    if (sums[middle] > x) {
      n = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

__device__ __forceinline__ int64_t SumBefore(const int64_t* sums, int32_t i) {
  return i == 0 ? 0 : sums[i - 1];
}

__device__ __forceinline__ int64_t CostOf(const PrefillPlanParams& p, const PrefillPiece& piece) {
  const int32_t rows = p.requests[piece.request].q_len * p.group_size - piece.row_begin;
  return AttentionCost(min(p.limits.rows_tile, rows), piece.kv_end - piece.kv_begin);
}

/// A tile of rows, and the keys that they see, as a piece.
template <class T>
__device__ __forceinline__ PrefillPiece TileAt(const PrefillPlanParams& p,
                                               const typename T::SharedStorage& shared,
                                               int32_t tile) {
  PrefillPiece t{};
  t.request = FirstAbove(shared.request_tiles, p.num_requests, tile);
  t.row_begin =
      static_cast<int32_t>(tile - SumBefore(shared.request_tiles, t.request)) * p.limits.rows_tile;
  const PrefillRequest& r = p.requests[t.request];
  const AttentionRows<int32_t> rows{r.q_len, r.kv_len, p.group_size, p.causal, p.window_left};
  const int32_t row_end = min(rows.num_rows(), t.row_begin + p.limits.rows_tile);
  const AttentionKeys<int32_t> keys = SeenKeys(rows, p.limits.kv_tile, t.row_begin, row_end);
  t.kv_begin = keys.begin;
  t.kv_end = keys.end;
  t.partial = -1;
  return t;
}

/// Sums hold partial results below, and split tiles above.
inline constexpr int64_t kOneMerge = int64_t{1} << 32;
__device__ __forceinline__ int32_t NumPartials(int64_t sum) { return static_cast<int32_t>(sum); }
__device__ __forceinline__ int32_t NumMerges(int64_t sum) {
  return static_cast<int32_t>(sum >> 32);
}
/// Pieces beyond one a tile.
__device__ __forceinline__ int32_t NumExtra(int64_t sum) {
  return NumPartials(sum) - NumMerges(sum);
}

/// Tiles up to the last one whose partial results are within the limit.
__device__ __forceinline__ int32_t NumUpTo(const int64_t* sums, int32_t n, int64_t limit) {
  int32_t begin = 0;
  while (begin < n) {
    const int32_t middle = (begin + n) / 2;
    if (NumPartials(sums[middle]) <= limit) {
      begin = middle + 1;
    } else {
      n = middle;
    }
  }
  return begin;
}

/// The pieces of a tile: its first at the tile's place, the others behind all tiles. It has been
/// given the number of pieces at most in place of its partial results.
__device__ __forceinline__ void WritePieces(const PrefillPlanParams& p, int32_t tile,
                                            int32_t num_tiles) {
  PrefillPiece piece = p.unsorted[tile];
  const int32_t max_chunks = piece.num_partials;
  piece.num_partials = 0;
  const int64_t before = SumBefore(p.sums, tile);
  const int32_t num_chunks = NumPartials(p.sums[tile]) - NumPartials(before);
  if (num_chunks == 0 || NumPartials(p.sums[tile]) > p.limits.max_partials) {
    p.unsorted[tile] = piece;
    return;
  }
  piece.first_partial = NumPartials(before);
  piece.num_partials = num_chunks;
  piece.merge = NumMerges(before);
  const int32_t kv_end = piece.kv_end;
  const int32_t extra = num_tiles + NumExtra(before) - 1;
  for (int32_t i = 0; i < num_chunks; ++i) {
    piece.kv_end = ChunkEnd(p.limits, piece.kv_begin, kv_end, max_chunks - i);
    piece.partial = piece.first_partial + i;
    p.unsorted[i == 0 ? tile : extra + i] = piece;
    piece.kv_begin = piece.kv_end;
  }
}

/// The logarithm of a cost, in eighths.
__device__ __forceinline__ int32_t LogOf(int64_t cost) {
  return static_cast<int32_t>(__float_as_uint(static_cast<float>(cost)) >> 20);
}

/// The lanes of a full warp that have the same class as this one.
__device__ __forceinline__ uint32_t LanesOfClass(int32_t cost_class) {
  uint32_t lanes = tile::kFullWarp;
#pragma unroll
  for (int bit = 1; bit < kCostClasses; bit *= 2) {
    const bool is_set = (cost_class & bit) != 0;
    const uint32_t set = __ballot_sync(tile::kFullWarp, is_set);
    lanes &= is_set ? set : ~set;
  }
  return lanes;
}

/// The warp's share of the pieces in order: f(piece, its class, its place among the class's of this
/// warp).
template <class T, class F>
__device__ __forceinline__ void ForEachPiece(const PrefillPlanParams& p,
                                             const PlanBlock<T::kThreads>& block,
                                             typename T::SharedStorage& shared, int32_t num_pieces,
                                             int32_t largest, F f) {
  const int32_t count = (num_pieces + T::kThreads - 1) / T::kThreads * 32;
  const int32_t begin = block.warp * count;
  const int32_t end = min(num_pieces, begin + count);
  for (int32_t first = begin; first < end; first += 32) {
    const int32_t i = first + block.lane;
    const bool is_there = i < end;
    const PrefillPiece piece = p.unsorted[min(i, end - 1)];
    const int32_t cost_class = min(kCostClasses - 1, largest - LogOf(CostOf(p, piece)));
    const uint32_t there = __ballot_sync(tile::kFullWarp, is_there);
    const uint32_t lanes = LanesOfClass(cost_class) & there;
    int32_t& placed = shared.placed[cost_class * T::kWarps + block.warp];
    const int32_t place = placed + __popc(lanes & ((1u << block.lane) - 1));
    if (is_there) f(piece, cost_class, place);
    __syncwarp();
    if (is_there && (lanes >> block.lane) == 1) placed = place + 1;
    __syncwarp();
  }
}

/// Pieces in the order of their costs' classes: counted, then placed.
template <class T>
__device__ __forceinline__ void SortPieces(const PrefillPlanParams& p,
                                           const PlanBlock<T::kThreads>& block,
                                           typename T::SharedStorage& shared, int32_t num_pieces) {
  constexpr int kCounts = kCostClasses * T::kWarps;
  int32_t mine = 0;
  block.ForEach(num_pieces, [&](int32_t i) { mine = max(mine, LogOf(CostOf(p, p.unsorted[i]))); });
  mine = static_cast<int32_t>(tile::WarpMax(static_cast<float>(mine)));
  if (block.lane == 0) shared.largest[block.warp] = mine;
  block.ForEach(kCounts, [&](int32_t i) { shared.placed[i] = 0; });
  block.Sync();
  int32_t largest = 0;
#pragma unroll 1
  for (int i = 0; i < T::kWarps; ++i) largest = max(largest, shared.largest[i]);
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    ForEachPiece<T>(p, block, shared, num_pieces, largest,
                    [&](const PrefillPiece& piece, int32_t cost_class, int32_t place) {
                      if (pass == 0) return;
                      const int32_t i = cost_class * T::kWarps + block.warp;
                      p.pieces[SumBefore(shared.class_sums, i) + place] = piece;
                    });
    if (pass == 1) return;
    block.Sync();
    block.ForEach(kCounts, [&](int32_t i) {
      shared.class_sums[i] = shared.placed[i];
      shared.placed[i] = 0;
    });
    block.Sync();
    block.Scan(shared.class_sums, kCounts);
  }
}

/// Sums of a step over tiles: their costs, then their partial results.
template <class T>
__device__ __forceinline__ void CutTiles(const PrefillPlanParams& p,
                                         const PlanBlock<T::kThreads>& block,
                                         const typename T::SharedStorage& shared,
                                         int32_t num_tiles) {
  AttentionCut cut{};
  int64_t largest = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    block.ForEach(num_tiles, [&](int32_t i) {
      PrefillPiece& tile = p.unsorted[i];
      if (pass == 0) tile = TileAt<T>(p, shared, i);
      const int64_t cost = CostOf(p, tile);
      p.sums[i] = cost;
      largest = max(largest, cost);
      if (pass == 0) return;
      const AttentionKeys<int32_t> keys{tile.kv_begin, tile.kv_end};
      tile.num_partials = MaxChunks(p.limits, keys, cost, cut, i);
      const int32_t num_chunks = NumChunks(p.limits, keys, tile.num_partials);
      p.sums[i] = num_chunks < 2 ? 0 : num_chunks + kOneMerge;
    });
    block.Sync();
    const int64_t total = block.Scan(p.sums, num_tiles);
    if (pass == 0) cut = CutOf(p.limits, {num_tiles, total, block.Max(largest)});
  }
}

template <PrefillPlanSpec kSpec>
__device__ __forceinline__ void Run(const PrefillPlanParams& p) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  const PlanBlock<T::kThreads> block{shared.warp_sums};
  block.ForEach(p.num_requests, [&](int32_t b) {
    const PrefillRequest r = RequestOf(p, b);
    p.requests[b] = r;
    shared.request_tiles[b] = CeilDiv(r.q_len * p.group_size, p.limits.rows_tile);
  });
  block.Sync();
  const int64_t all_tiles = block.Scan(shared.request_tiles, p.num_requests);
  // More than max_tiles are there only where requests share tokens.
  const auto num_tiles = static_cast<int32_t>(min(all_tiles, int64_t{p.max_tiles}));
  CutTiles<T>(p, block, shared, num_tiles);
  block.ForEach(num_tiles, [&](int32_t i) { WritePieces(p, i, num_tiles); });
  block.Sync();
  const int32_t num_split = NumUpTo(p.sums, num_tiles, p.limits.max_partials);
  const int32_t num_pieces = num_tiles + NumExtra(SumBefore(p.sums, num_split));
  SortPieces<T>(p, block, shared, num_pieces);
  const auto max_pieces = static_cast<int32_t>(p.max_tiles + p.limits.max_partials);
  block.ForEach(max_pieces - num_pieces, [&](int32_t i) {
    PrefillPiece piece{};
    piece.row_begin = kNoRow;
    piece.partial = -1;
    p.pieces[num_pieces + i] = piece;
  });
}

}  // namespace flashinfer::kernels::prefill_plan_simt
