// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores, by mma.sync: decode and several query tokens a request alike.
//
// A block holds the rows of its piece, the heads of query tokens, and walks over the keys tile by
// tile. A tile lies in shared memory once: ckv and kpe beside each other are the keys, and ckv the
// values. Outputs of 512 columns do not fit into a warp, so that several warps share rows: for
// scores they divide the keys among themselves, for outputs the columns. The next tiles are on
// their way while this one is multiplied. Up to 16 rows, scores are computed a tile ahead
// (mla_ahead.cuh). Pieces of split rows leave partial results, which the last block to come merges
// in the order of keys.
//
// Keys of 8 bits come as they are, and are converted in shared memory (mla_raw.cuh).
//
// What bounds it, for 512 + 64 columns of bf16 on an H200 (132 multiprocessors; 2026-12-01). Up to
// 16 rows, bytes: 128 requests of 4096 keys and 16 heads take 161 to 163 µs, 3.7 TB/s; the second
// level cache is 87 % busy, as each byte crosses it twice. Two blocks of 8 warps with 16 keys a
// turn hide each other's waits (161 µs; of 32 keys in one block of 16 warps 177; three stages 170;
// one block with 7 or 8 stages 227). Of e4m3 it is 189 µs: warps issue in every second cycle, of
// which conversion takes half. With 64 rows, latencies of shared memory: 128 heads take 634 µs, 230
// TFLOP/s, of which scores are 37 % (fragments are loaded and used step by step by 2 warps a
// scheduler), values 19, issuing copies 15; e4m3 977 µs with tiles of 32 keys.
#pragma once

#include "kernels/attention/mla_ahead.cuh"
#include "kernels/attention/mla_load.cuh"
#include "kernels/attention/mla_raw.cuh"
#include "kernels/attention/mla_tile.cuh"
#include "kernels/attention/mla_write.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace flashinfer::kernels::mla_mma {

/// The tile in `stage`, which is there.
template <class T>
__device__ __forceinline__ void Attend(const MlaParams& params, const Block& block,
                                       const Warp<T>& w, int begin, int stage,
                                       typename T::SharedStorage& shared, State<T>& state) {
  const bool has_scores = w.has_rows(block) && w.has_keys();
  Scores<T> scores;
  if (has_scores) {
    MultiplyKeys<T>(params, w, shared.q, shared.kv[stage], shared.scales[stage], scores);
    prefill_mma::TransformScores<T>(params.attention, block, w, begin + w.first_key(), state,
                                    scores);
    ShareMaxima<T>(w, scores, shared);
  }
  SyncWarps<T>();  // maxima are there, and nobody reads kpe any more
  uint16_t* weights = WeightsOf<T>(shared, stage);
  if (w.has_rows(block)) UpdateMaxima<T>(w, shared, state);
  if (has_scores) ShareWeights<T>(w, scores, weights, state);
  if (HasUnseen<T>(block, begin)) ClearNonFinite<T>(shared.kv[stage]);
  SyncWarps<T>();
  if (w.has_rows(block)) {
    MultiplyValues<T>(w, shared.kv[stage], shared.scales[stage], SharedWeights<T>(w, weights),
                      state);
  }
}

template <class T>
__device__ __forceinline__ void RunKeys(const MlaParams& params, const Block& block,
                                        const Warp<T>& w, typename T::SharedStorage& shared,
                                        State<T>& state) {
  const PrefillParams& p = params.attention;
  const PrefillPiece& piece = block.piece;
  const bool finds_tokens = threadIdx.x < T::kKvTile;
  TokenRows token;
  if (finds_tokens) {
    shared.tokens[0][threadIdx.x] = prefill_mma::FindToken<T>(p, block, piece.kv_begin);
    token = prefill_mma::FindToken<T>(p, block, piece.kv_begin + T::kKvTile);
  }
  LoadQuery<T>(params, block, shared.q);
  int stage = 1;
  // The first turn only copies: one loop, so that copying is compiled once.
#pragma unroll 1
  for (int begin = piece.kv_begin - T::kKvTile; begin < piece.kv_end; begin += T::kKvTile) {
    ptx::cp_async_wait_group<0>();
    SyncWarps<T>();  // this tile is there, and nobody reads the other stage any more
    if (begin + T::kKvTile < piece.kv_end) {
      CopyTile<T>(params, block, shared, begin + T::kKvTile, stage ^ 1);
    }
    // Where the tile after that is: looked up a whole tile before it is needed.
    if (finds_tokens) {
      shared.tokens[stage][threadIdx.x] = token;
      token = prefill_mma::FindToken<T>(p, block, begin + 3 * T::kKvTile);
    }
    if (begin >= piece.kv_begin) Attend<T>(params, block, w, begin, stage, shared, state);
    stage ^= 1;
  }
}

/// The same over keys of 8 bits, which are converted a tile ahead.
template <class T>
__device__ __forceinline__ void RunRawKeys(const MlaParams& params, const Block& block,
                                           const Warp<T>& w, typename T::SharedStorage& shared,
                                           State<T>& state) {
  constexpr int kTile = T::kKvTile;
  constexpr int kStages = T::kCopyStages;
  const PrefillParams& p = params.attention;
  const PrefillPiece& piece = block.piece;
  const int thread = static_cast<int>(threadIdx.x);
  const bool finds_tokens = thread < kTile;
  static_assert(kStages * kTile <= T::kThreads, "a thread looks up one token at first");
  const TokenRows first = prefill_mma::FindToken<T>(p, block, piece.kv_begin);
  TokenRows token = prefill_mma::FindToken<T>(p, block, piece.kv_begin + kStages * kTile);
  if (thread < kStages * kTile) shared.tokens[thread / kTile][thread % kTile] = first;
  LoadQuery<T>(params, block, shared.q);
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    CopyRawTileIfAny<T>(params, block, shared, piece.kv_begin + i * kTile, i);
  }
  int stage = 1;
  int raw = 0;  // stage of the tile after the one at `begin`
#pragma unroll 1
  for (int begin = piece.kv_begin - kTile; begin < piece.kv_end; begin += kTile) {
    ptx::cp_async_wait_group<kStages - 2>();
    SyncWarps<T>();  // the next tile came, this one is converted, and nobody reads others any more
    CopyRawTileIfAny<T>(params, block, shared, begin + kStages * kTile,
                        raw == 0 ? kStages - 1 : raw - 1);
    if (finds_tokens) {
      shared.tokens[raw][thread] = token;
      token = prefill_mma::FindToken<T>(p, block, begin + (kStages + 2) * kTile);
    }
    if (begin + kTile < piece.kv_end) ConvertTile<T>(shared, raw, stage ^ 1);
    if (begin >= piece.kv_begin) Attend<T>(params, block, w, begin, stage, shared, state);
    stage ^= 1;
    raw = raw + 1 == kStages ? 0 : raw + 1;
  }
}

template <MlaSpec kSpec>
__device__ __forceinline__ void Run(const MlaParams& params) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  const PrefillParams& p = params.attention;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) shared.block = prefill_mma::MakeBlock<T>(p);
  __syncthreads();
  const Block& block = shared.block;  // there, it takes no registers
  const Warp<T> w = MakeWarp<T>();
  State<T> state;
  prefill_mma::ClearState<T>(state);
  state.scale = T::kTransforms ? p.sm_scale : p.sm_scale * tile::kLog2E;
  if (block.piece.kv_begin < block.piece.kv_end) {
    if constexpr (T::kIsAhead) {
      RunKeysAhead<T>(params, block, w, shared, state);
    } else if constexpr (T::kConverts) {
      RunRawKeys<T>(params, block, w, shared, state);
    } else {
      RunKeys<T>(params, block, w, shared, state);
    }
  }
  WriteResult<T>(p, block, w, shared, state);
}

}  // namespace flashinfer::kernels::mla_mma
