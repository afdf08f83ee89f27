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
// What bounds it, as computed, not measured, for 512 + 64 columns of bf16 on an H200 (4.3 TB/s, 132
// multiprocessors at 1.75 GHz). Up to 16 rows, bytes: 32 keys of a multiprocessor take 1980 cycles
// from memory. One after the other, a tile's steps take about 1250: to start copies 100, scores 400
// (9 products that wait for each other), the sums of parts 70, maxima 100, exponentials 250, values
// 250, waits 80; about 750 where other warps compute the scores. In sum shared memory moves 1250
// cycles' worth (a tile is written, read as keys, read as values; scores are written once and read
// by 8 warps), tensor cores work 540. With two stages, 4 warps and a score from 36 products in a
// row it was 2700 cycles; 128 requests of 4096 keys took 252 µs. With 64 rows, shared memory: 64
// keys take 4700 cycles (keys and queries 440 KB, values and weights 165 KB) against 3700 of the
// tensor cores', so about 420 TFLOP/s.
#pragma once

#include "kernels/attention/mla_ahead.cuh"
#include "kernels/attention/mla_load.cuh"
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
  __syncthreads();  // maxima are there, and nobody reads kpe any more
  uint16_t* weights = WeightsOf<T>(shared, stage);
  if (w.has_rows(block)) UpdateMaxima<T>(w, shared, state);
  if (has_scores) ShareWeights<T>(w, scores, weights, state);
  if (HasUnseen<T>(block, begin)) ClearNonFinite<T>(shared.kv[stage]);
  __syncthreads();
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
    __syncthreads();  // this tile is there, and nobody reads the other stage any more
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
    } else {
      RunKeys<T>(params, block, w, shared, state);
    }
  }
  WriteResult<T>(p, block, w, shared, state);
}

}  // namespace flashinfer::kernels::mla_mma
