// SPDX-License-Identifier: Apache-2.0
// Attention of many query tokens a request on CUDA cores, in f32: for what tensor cores would
// round, or cannot multiply.
//
// The pieces, the roles of lanes and the online softmax are those of prefill on tensor cores;
// queries, keys and values are widened to f32 on their way to shared memory, and products are
// fused multiply-adds. One stage of keys and values: several blocks of a multiprocessor hide each
// other's waits. Bound by the FMA units, and by the 10 loads of shared memory that 64 of them take.
#pragma once

#include "kernels/attention/prefill_load.cuh"
#include "kernels/attention/prefill_score.cuh"
#include "kernels/attention/prefill_simt_spec.h"
#include "kernels/attention/prefill_write.cuh"
#include "kernels/attention/simt_products.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace flashinfer::kernels::prefill_simt {

using prefill_mma::Block;
using prefill_mma::State;
using prefill_mma::TokenRows;
using prefill_mma::Warp;

/// The pieces of prefill on tensor cores ask for these names.
template <PrefillSimtSpec kSpec, class V_>
struct Traits {
  using V = V_;
  using Element = float;
  static constexpr PrefillSimtSpec kS = kSpec;
  static constexpr DType kCompute = DType::kF32;
  static constexpr int kThreads = NumThreads(kSpec);
  static constexpr int kRows = PrefillRows(kSpec);
  static constexpr int kRowTiles = 1;
  static constexpr int kKvTile = kSpec.kv_tile;
  static constexpr int kKeyTiles = kKvTile / 8;
  static constexpr int kQkColumns = kSpec.qk_columns;
  static constexpr int kVoColumns = kSpec.vo_columns;
  static constexpr int kValueTiles = kVoColumns / 8;
  static constexpr int kQkStride = SimtRowStride(kQkColumns);
  static constexpr int kVoStride = SimtRowStride(kVoColumns);
  static constexpr int kWeightStride = SimtRowStride(kKvTile);
  static constexpr int kQueryParts = 1;
  static constexpr bool kCopies = false;
  static constexpr bool kCopiesQuery = false;
  static constexpr bool kTransforms = kSpec.soft_cap || kSpec.alibi || kSpec.has_bias || V::IsOn();
  static constexpr bool kScalesRows = true;
  static_assert(kSpec.num_warps == 1 || kSpec.num_warps == 2 || kSpec.num_warps == 4,
                "num_warps must be 1, 2 or 4");
  static_assert(kKvTile == 8 || kKvTile == 16 || kKvTile == 32, "kv_tile must be 8, 16 or 32");
  static_assert(kQkColumns % 16 == 0 && kVoColumns % 16 == 0,
                "qk_columns and vo_columns must be multiples of 16");
  static_assert(kVoColumns <= 256, "vo_columns must be at most 256");

  struct Inputs {
    float q[kRows * kQkStride];
    float k[kKvTile * kQkStride];
    float v[kKvTile * kVoStride];
  };
  struct SharedStorage {
    union {
      alignas(16) Inputs in;
      alignas(16) float out[kRows * PrefillOutputStride(kVoColumns)];
    };
    float weights[kRows * kWeightStride];
    TokenRows tokens[1][kKvTile];
    float row_scales[kRows];  ///< of a row's scores: to natural logits; without transform, base 2
    Block block;
    alignas(16) uint32_t is_last;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// Scores become weights, for the lanes of the warp.
template <class T>
__device__ __forceinline__ void ShareWeights(const Warp<T>& w, float* weights, State<T>& state,
                                             const float (&scores)[1][T::kKeyTiles][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float scale = state.ScaleOf(0, half);
    const float shift = prefill_mma::ShiftOf<T>(state, 0, half);
#pragma unroll
    for (int n = 0; n < T::kKeyTiles; ++n) {
      float2 x = make_float2(scores[0][n][2 * half], scores[0][n][2 * half + 1]);
      if constexpr (T::V::UsesSoftmax()) {
        x.x = ptx::ex2_approx(fmaf(x.x, scale, shift));
        x.y = ptx::ex2_approx(fmaf(x.y, scale, shift));
      }
      state.sum[0][half] += x.x + x.y;
      *reinterpret_cast<float2*>(weights + w.RowOf(0, half) * T::kWeightStride + w.ColumnOf(n)) = x;
    }
  }
  __syncwarp();
}

/// The tile from key `begin` on, which is there.
template <class T>
__device__ __forceinline__ void Attend(const PrefillParams& p, const Block& block, const Warp<T>& w,
                                       int begin, typename T::SharedStorage& shared,
                                       State<T>& state) {
  float scores[1][T::kKeyTiles][4] = {};
  simt::MultiplyRows<T::kQkColumns, T::kQkStride>(shared.in.q + w.first_row * T::kQkStride,
                                                  shared.in.k, w.lane, scores[0]);
  prefill_mma::TransformScores<T>(p, block, w, begin, state, scores);
  prefill_mma::UpdateMaxima<T>(state, scores);
  ShareWeights<T>(w, shared.weights, state, scores);
  simt::MultiplyColumns<T::kKvTile, T::kWeightStride, T::kVoStride>(
      shared.weights + w.first_row * T::kWeightStride, shared.in.v, w.lane, state.o[0]);
}

template <class T>
__device__ __forceinline__ void RunKeys(const PrefillParams& p, const Block& block,
                                        const Warp<T>& w, typename T::SharedStorage& shared,
                                        State<T>& state) {
  const PrefillPiece& piece = block.piece;
  const bool finds_tokens = threadIdx.x < T::kKvTile;
  TokenRows token;
  if (finds_tokens) token = prefill_mma::FindToken<T>(p, block, piece.kv_begin);
  prefill_mma::LoadQuery<T>(p, block, shared);
#pragma unroll 1
  for (int begin = piece.kv_begin; begin < piece.kv_end; begin += T::kKvTile) {
    __syncthreads();  // nobody reads the tile before any more
    if (finds_tokens) {
      shared.tokens[0][threadIdx.x] = token;
      token = prefill_mma::FindToken<T>(p, block, begin + T::kKvTile);
    }
    __syncthreads();
    prefill_mma::ConvertKeys<T>(p, block, shared.tokens[0], begin, shared.in.k);
    prefill_mma::CopyTileRows<T, T::kVoColumns, &TokenRows::v>(
        shared.tokens[0], p.head_dim_vo - block.vo_begin, shared.in.v);
    __syncthreads();
    if (w.first_row >= block.num_rows) continue;
    if (begin == piece.kv_begin) prefill_mma::InitRows<T>(p, w, shared, state);
    Attend<T>(p, block, w, begin, shared, state);
  }
}

template <PrefillSimtSpec kSpec, class V = NoVariant>
__device__ __forceinline__ void Run(const typename V::template Params<PrefillParams>& p) {
  using T = Traits<kSpec, V>;
  extern __shared__ __align__(16) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) shared.block = prefill_mma::MakeBlock<T>(p);
  __syncthreads();
  const Block& block = shared.block;
  const Warp<T> w = prefill_mma::MakeWarp<T>();
  State<T> state;
  prefill_mma::ClearState<T>(state);
  if (block.piece.kv_begin < block.piece.kv_end) RunKeys<T>(p, block, w, shared, state);
  prefill_mma::SumRows<T>(state);
  prefill_mma::WriteRows<T>(p, block, w, shared, state);
}

}  // namespace flashinfer::kernels::prefill_simt
