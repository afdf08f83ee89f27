// SPDX-License-Identifier: Apache-2.0
// Attention of one query token per request over a paged cache, on tensor cores.
//
// A block walks over the pieces of its slot (keys of a request) for up to 32 query heads that share
// a KV head. Each warp takes 16 tokens of a stage, which it copies itself, and waits for nobody
// until a piece ends; copies run some stages ahead, into the next piece too. Scores, outputs and
// the running softmax live in registers, queries as well. Pieces of a split request leave partial
// results, which the last block to come merges in order. Bound by bytes.
#pragma once

#include "kernels/attention/decode_mma_copy.cuh"
#include "kernels/attention/decode_mma_merge.cuh"
#include "kernels/attention/decode_mma_tile.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/prefetch.cuh"

namespace flashinfer::kernels::decode_mma {

/// Columns of keys that do not exist read as zeros; whatever values hold there is not written.
template <class T>
__device__ __forceinline__ void ClearPadding(char* keys, const Lane& l) {
  constexpr int kBytes = T::kS.head_dim_qk * DecodeElementBytes(T::kS.dtype_kv);
  constexpr int kPadding = (T::kS.head_dim_qk + 15) / 16 * 16 - T::kS.head_dim_qk;  // 0 or 8
  if constexpr (kPadding != 0) {
    constexpr int kPaddingBytes = kPadding * DecodeElementBytes(T::kS.dtype_kv);
    if (l.lane < kDecodeMmaTokens) {
      ptx::st<kPaddingBytes>(keys + l.lane * T::kQkPitch + kBytes, ptx::Words<kPaddingBytes>{});
    }
  }
}

template <class T>
__device__ __forceinline__ void Clear(State<T>& state) {
#pragma unroll
  for (int r = 0; r < T::kRowBlocks; ++r) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      state.max[r][i] = Unseen<typename T::V>();
      state.sum[r][i] = 0;
    }
#pragma unroll
    for (int tile = 0; tile < T::kVoTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.o[r][tile][i] = 0;
    }
  }
}

/// A warp's 16 tokens of a stage. `wait_for_values` is called when they are needed.
template <class T, class WaitForValues>
__device__ __forceinline__ void Attend(const DecodeParams& p, const Lane& l, const char* stage,
                                       const StageKeys& keys, const Query<T>& query,
                                       State<T>& state, WaitForValues wait_for_values) {
  float s[T::kRowBlocks][4] = {};
  uint32_t weights[T::kRowBlocks][2];
  Score<T>(stage, l, query, s);
  Mask<T>(p, l, keys, query, s);
  RaiseMaximum<T>(s, state);
  Weigh<T>(s, state, weights);
  wait_for_values();
  AddValues<T>(stage + kDecodeMmaTokens * T::kQkPitch, l, weights, state);
}

/// Addresses of each tensor are translated, and parameters fetched, while the plan is on its way.
/// H200, 2026-12-01: a kernel of 1000 keys that follows another takes 5.4 µs, without 5.55.
__device__ __forceinline__ void Touch(const DecodeParams& p, const Lane& l) {
  if (l.warp != 0) return;
  const void* at = p.k;
  if (l.lane == 1) at = p.v;
  if (l.lane == 2) at = p.q;
  if (l.lane == 3) at = p.pages;
  if (l.lane == 4) at = p.partial_o;
  if (l.lane < 5 && at != nullptr) ptx::prefetch_L2(at);
}

__device__ __forceinline__ Tile MakeTile(const DecodeParams& p, int rows_tile) {
  Tile tile;
  tile.index = static_cast<int>(blockIdx.y);
  tile.kv_head = tile.index / p.row_tiles;
  const int row = (tile.index - tile.kv_head * p.row_tiles) * rows_tile;
  tile.first_row = tile.kv_head * p.group_size + row;
  tile.num_rows = min(rows_tile, p.group_size - row);
  return tile;
}

template <DecodeMmaSpec kSpec, class V = NoVariant>
__device__ __forceinline__ void Run(const typename V::template Params<DecodeParams>& p) {
  using T = typename TraitsWith<kSpec, V>::Type;
  extern __shared__ __align__(128) char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  // A copy wrote the plan, no kernel: it can be read while the kernel before this one runs.
  const DecodeSlot slot = p.slots[blockIdx.x];
  const Tile tile = MakeTile(p, T::kRows);
  const Lane l = MakeLane();
  Touch(p, l);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (slot.num_pieces == 0) return;
  Copier<T> copier(p, tile, l, slot);
  for (int i = 0; i < T::kStages; ++i) ClearPadding<T>(shared.ring[i][l.warp], l);
  int stage = 0;
  int free_stage = 0;
  int num_ahead = T::kStages - 1;  // copies to start before the first keys are waited for
  Query<T> query;
  DecodePiece piece = slot.first;
#pragma unroll 1
  for (int i = 1;; ++i) {
    LoadQuery<T>(p, tile, l, piece.request, query);
    State<T> state;
    Clear<T>(state);
#pragma unroll 1
    for (int at = piece.kv_begin - num_ahead * T::kKvTile; at < piece.kv_end; at += T::kKvTile) {
      const bool is_ahead = at < piece.kv_begin;
      if (!is_ahead) copier.WaitForKeys();
      copier.CopyNext(shared.ring[free_stage][l.warp]);
      free_stage = free_stage + 1 == T::kStages ? 0 : free_stage + 1;
      if (is_ahead) continue;
      Attend<T>(p, l, shared.ring[stage][l.warp],
                {tile, piece, piece.kv_end - at - l.warp * kDecodeMmaTokens}, query, state,
                [&] { copier.WaitForValues(); });
      stage = stage + 1 == T::kStages ? 0 : stage + 1;
    }
    num_ahead = 0;
    Finish<T>(p, tile, piece, l, free_stage, shared, state);
    if (i >= slot.num_pieces) break;
    piece = p.pieces[slot.first_index + i];
    __syncthreads();  // the stage and the sums may be overwritten
    ClearPadding<T>(shared.ring[free_stage][l.warp], l);
  }
  ptx::cp_async_wait_group<0>();
}

}  // namespace flashinfer::kernels::decode_mma
