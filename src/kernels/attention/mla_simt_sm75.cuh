// SPDX-License-Identifier: Apache-2.0
// Latent attention on CUDA cores, in f32: for what tensor cores would round, or cannot multiply.
//
// Pieces, roles of warps and the online softmax are those of latent attention on tensor cores: 4
// warps share 16 rows, for scores they divide the keys among themselves, for outputs the columns.
// Queries and keys are widened to f32, with their scales, on the way to shared memory, and products
// are fused multiply-adds. One stage of keys: two blocks of a multiprocessor hide each other's
// waits where they fit. Bound by the FMA units and by shared memory alike.
#pragma once

#include "kernels/attention/mla_load.cuh"
#include "kernels/attention/mla_simt_spec.h"
#include "kernels/attention/mla_tile.cuh"
#include "kernels/attention/mla_write.cuh"
#include "kernels/attention/simt_products.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace flashinfer::kernels::mla_simt {

using mla_mma::State;
using mla_mma::Warp;
using prefill_mma::Block;
using prefill_mma::TokenRows;  ///< k is ckv, v is kpe

/// The pieces of prefill and of latent attention on tensor cores ask for these names.
template <MlaSimtSpec kSpec>
struct Traits {
  using V = NoVariant;
  using Element = float;
  static constexpr MlaSimtSpec kMla = kSpec;
  static constexpr PrefillSpec kS = {.dtype_q = kSpec.dtype_q,
                                     .dtype_kv = kSpec.dtype_kv,
                                     .dtype_out = kSpec.dtype_out,
                                     .vo_slices = 1,
                                     .kv_access_bytes = kSpec.kv_access_bytes,
                                     .q_access_bytes = kSpec.q_access_bytes,
                                     .out_access_bytes = kSpec.out_access_bytes,
                                     .soft_cap = kSpec.soft_cap};
  static constexpr DType kCompute = DType::kF32;
  static constexpr int kThreads = NumThreads(kSpec);
  static constexpr int kRows = MlaRows(kSpec);
  static constexpr int kRowTiles = 1;
  static constexpr int kKvTile = kSpec.kv_tile;
  static constexpr bool kIsAhead = false;
  static constexpr int kColumnWarps = kThreads / 32;
  static constexpr int kPartWarps = 1;
  static constexpr bool kHasScoreWarps = false;
  static constexpr int kKeyWarps = kKvTile / 8;
  static constexpr int kWarpKeys = 8;
  static constexpr int kKeyTiles = 1;  ///< of a warp's scores
  static constexpr int kCkvColumns = kSpec.ckv_columns;
  static constexpr int kColumns = kCkvColumns + kSpec.kpe_columns;
  static constexpr int kStride = MlaRowStride(kSpec);
  static constexpr int kVoColumns = kCkvColumns;
  static constexpr int kWarpColumns = (kCkvColumns / 16 + kColumnWarps - 1) / kColumnWarps * 16;
  static constexpr int kValueTiles = kWarpColumns / 8;  ///< of a warp's outputs
  static constexpr int kWeightStride = SimtRowStride(kKvTile);
  static constexpr int kScaleBlocks = kSpec.scale_blocks;
  /// Columns of a scale.
  static constexpr int kScaleColumns = kCkvColumns / (kScaleBlocks == 0 ? 1 : kScaleBlocks);
  static constexpr bool kTransforms = kSpec.soft_cap;
  static constexpr bool kScalesRows = false;
  static_assert(kKvTile == 8 || kKvTile == 16 || kKvTile == 32, "kv_tile must be 8, 16 or 32");
  static_assert(kCkvColumns % 16 == 0 && kSpec.kpe_columns % 16 == 0,
                "ckv_columns and kpe_columns must be multiples of 16");
  static_assert(kCkvColumns <= 512, "ckv_columns must be at most 512");
  static_assert(kScaleBlocks == 0 || (kCkvColumns % kScaleBlocks == 0 && kScaleColumns % 32 == 0),
                "scale_blocks must divide ckv_columns into multiples of 32");

  struct SharedStorage {
    alignas(16) float q[kRows * kStride];
    float kv[kKvTile * kStride];
    float weights[kRows * kWeightStride];
    TokenRows tokens[kKvTile];
    float scales[MlaScales(kSpec)];
    float rows[kKeyWarps][kRows];  ///< maxima of a tile's scores, and at the end sums
    Block block;
    alignas(16) uint32_t is_last;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// Keys of the tile whose tokens and scales are known, in units of ckv's scale.
template <class T>
__device__ __forceinline__ void CopyKeys(const MlaParams& params,
                                         typename T::SharedStorage& shared) {
  constexpr DType kKv = T::kS.dtype_kv;
  constexpr int kUnits = T::kColumns / 8;  // of a row
  const PrefillParams& p = params.attention;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < T::kKvTile * kUnits; i += T::kThreads) {
    const int row = i / kUnits;
    const int column = i % kUnits * 8;
    const int kpe_column = column - T::kCkvColumns;
    const bool is_kpe = kpe_column >= 0;
    const char* from = is_kpe ? shared.tokens[row].v : shared.tokens[row].k;
    float x[8] = {};
    if (is_kpe ? kpe_column < params.head_dim_kpe : column < p.head_dim_vo) {
      prefill_mma::LoadFloats<kKv, 8, T::kS.kv_access_bytes>(
          tile::At<kKv>(from, is_kpe ? kpe_column : column), x);
      float scale = is_kpe ? params.kpe_over_ckv : 1.0f;
      if constexpr (T::kScaleBlocks > 0) {
        if (!is_kpe) scale = shared.scales[row * T::kScaleBlocks + column / T::kScaleColumns];
      }
#pragma unroll
      for (float& value : x) value *= scale;
    }
    prefill_mma::StoreRounded<T>(shared.kv + row * T::kStride + column, x);
  }
}

/// Scores become weights, for all warps.
template <class T>
__device__ __forceinline__ void ShareWeights(const Warp<T>& w, const mla_mma::Scores<T>& scores,
                                             float* weights, State<T>& state) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float scale = state.ScaleOf(0, half);
    const float shift = prefill_mma::ShiftOf<T>(state, 0, half);
    const float2 x = make_float2(ptx::ex2_approx(fmaf(scores[0][0][2 * half], scale, shift)),
                                 ptx::ex2_approx(fmaf(scores[0][0][2 * half + 1], scale, shift)));
    state.sum[0][half] += x.x + x.y;
    *reinterpret_cast<float2*>(weights + w.RowOf(0, half) * T::kWeightStride + w.first_key() +
                               w.ColumnOf(0)) = x;
  }
}

/// The tile from key `begin` on, which is there.
template <class T>
__device__ __forceinline__ void Attend(const MlaParams& params, const Block& block,
                                       const Warp<T>& w, int begin,
                                       typename T::SharedStorage& shared, State<T>& state) {
  mla_mma::Scores<T> scores = {};
  if (w.has_keys()) {
    simt::MultiplyRows<T::kColumns, T::kStride>(shared.q, shared.kv + w.first_key() * T::kStride,
                                                w.lane, scores[0]);
    prefill_mma::TransformScores<T>(params.attention, block, w, begin + w.first_key(), state,
                                    scores);
    mla_mma::ShareMaxima<T>(w, scores, shared);
  }
  __syncthreads();  // maxima are there
  mla_mma::UpdateMaxima<T>(w, shared, state);
  if (w.has_keys()) ShareWeights<T>(w, scores, shared.weights, state);
  __syncthreads();
  if (w.column_begin >= T::kCkvColumns) return;
  simt::MultiplyColumns<T::kKvTile, T::kWeightStride, T::kStride>(
      shared.weights, shared.kv + w.column_begin, w.lane, state.o[0]);
}

template <class T>
__device__ __forceinline__ void RunKeys(const MlaParams& params, const Block& block,
                                        const Warp<T>& w, typename T::SharedStorage& shared,
                                        State<T>& state) {
  const PrefillPiece& piece = block.piece;
  const bool finds_tokens = threadIdx.x < T::kKvTile;
  TokenRows token;
  if (finds_tokens) token = prefill_mma::FindToken<T>(params.attention, block, piece.kv_begin);
  mla_mma::LoadQuery<T>(params, block, shared.q);
#pragma unroll 1
  for (int begin = piece.kv_begin; begin < piece.kv_end; begin += T::kKvTile) {
    __syncthreads();  // nobody reads the tile before any more
    if (finds_tokens) {
      shared.tokens[threadIdx.x] = token;
      token = prefill_mma::FindToken<T>(params.attention, block, begin + T::kKvTile);
    }
    if constexpr (T::kScaleBlocks > 0) mla_mma::CopyScales<T>(params, block, begin, shared.scales);
    __syncthreads();
    CopyKeys<T>(params, shared);
    __syncthreads();
    Attend<T>(params, block, w, begin, shared, state);
  }
}

template <MlaSimtSpec kSpec>
__device__ __forceinline__ void Run(const MlaParams& params) {
  using T = Traits<kSpec>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  const PrefillParams& p = params.attention;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) shared.block = prefill_mma::MakeBlock<T>(p);
  __syncthreads();
  const Block& block = shared.block;
  const Warp<T> w = mla_mma::MakeWarp<T>();
  State<T> state;
  prefill_mma::ClearState<T>(state);
  state.scale = T::kTransforms ? p.sm_scale : p.sm_scale * tile::kLog2E;
  if (block.piece.kv_begin < block.piece.kv_end) RunKeys<T>(params, block, w, shared, state);
  mla_mma::WriteResult<T>(p, block, w, shared, state);
}

}  // namespace flashinfer::kernels::mla_simt
