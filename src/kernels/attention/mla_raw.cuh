// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores, caches of 8 bits: keys come to shared memory as they are, in
// the background, and there become what is multiplied.
#pragma once

#include "kernels/attention/mla_load.cuh"

namespace flashinfer::kernels::mla_mma {

/// 16 elements, of which num_there exist: a multiple of 8, below 0 too.
template <class T>
__device__ __forceinline__ void CopyRawUnit(uint8_t* to, const char* from, int num_there) {
  constexpr int kAccess = T::kS.kv_access_bytes;
  if constexpr (kAccess == 16) {
    if (num_there <= 0 || num_there >= 16) {
      ptx::cp_async_zfill(to, from, num_there > 0);
      return;
    }
  }
#pragma unroll
  for (int half = 0; half < 16; half += 8) {
    if (num_there <= half) {
      ptx::st<8>(to + half, ptx::Words<8>{});
      continue;
    }
    constexpr int kPart = kAccess < 8 ? kAccess : 8;
#pragma unroll
    for (int i = half; i < half + 8; i += kPart) ptx::cp_async<kPart>(to + i, from + i);
  }
}

/// kColumns of a tile's rows, of which num_columns exist, from column kAt of their place on.
template <class T, int kColumns, int kAt, const char* TokenRows::*kRow>
__device__ __forceinline__ void CopyRawRows(const TokenRows* tokens, int num_columns, uint8_t* to) {
  constexpr int kLanes = prefill_mma::RowLanes(kColumns / 2);
  constexpr int kRowsAtOnce = T::kThreads / kLanes;
  constexpr int kTurns = (T::kKvTile + kRowsAtOnce - 1) / kRowsAtOnce;
  const int column = static_cast<int>(threadIdx.x) % kLanes * 16;
  const int first_row = static_cast<int>(threadIdx.x) / kLanes;
  if (first_row >= T::kKvTile) return;
  // All at once: one could not be looked up behind the copy of another.
  const char* rows[kTurns];
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int row = turn * kRowsAtOnce + first_row;
    rows[turn] = tokens[T::kKvTile % kRowsAtOnce == 0 || row < T::kKvTile ? row : 0].*kRow;
  }
  to += first_row * T::kColumns + kAt;
#pragma unroll
  for (int c = 0; c < kColumns; c += kLanes * 16) {
    if (kColumns % (kLanes * 16) != 0 && c + column >= kColumns) break;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int row = turn * kRowsAtOnce;
      if (T::kKvTile % kRowsAtOnce != 0 && row + first_row >= T::kKvTile) break;
      CopyRawUnit<T>(to + row * T::kColumns + c + column, rows[turn] + c + column,
                     num_columns - c - column);
    }
  }
}

/// Keys into a stage of those as they are; shared.tokens[stage] says where they are.
template <class T>
__device__ __forceinline__ void CopyRawTile(const MlaParams& params,
                                            typename T::SharedStorage& shared, int stage) {
  const TokenRows* tokens = shared.tokens[stage];
  CopyRawRows<T, T::kCkvColumns, 0, &TokenRows::k>(tokens, params.attention.head_dim_vo,
                                                   shared.raw[stage]);
  if constexpr (T::kColumns > T::kCkvColumns) {
    CopyRawRows<T, T::kColumns - T::kCkvColumns, T::kCkvColumns, &TokenRows::v>(
        tokens, params.head_dim_kpe, shared.raw[stage]);
  }
}

template <class T>
__device__ __forceinline__ void CopyRawTileIfAny(const MlaParams& params, const Block& block,
                                                 typename T::SharedStorage& shared, int begin,
                                                 int stage) {
  if (begin < block.piece.kv_end) CopyRawTile<T>(params, shared, stage);
  ptx::cp_async_commit_group();  // waits count groups
}

/// kColumns of a tile's rows, from column kAt of their place on, to what is multiplied.
template <class T, int kColumns, int kAt>
__device__ __forceinline__ void ConvertRows(const uint8_t* raw, uint16_t* to) {
  constexpr int kLanes = prefill_mma::RowLanes(kColumns);
  constexpr int kRowsAtOnce = T::kThreads / kLanes;
  const int first_column = static_cast<int>(threadIdx.x) % kLanes * 8;
#pragma unroll
  for (int turn = 0; turn < T::kKvTile; turn += kRowsAtOnce) {
    const int row = turn + static_cast<int>(threadIdx.x) / kLanes;
    if (T::kKvTile % kRowsAtOnce != 0 && row >= T::kKvTile) break;
#pragma unroll
    for (int c = 0; c < kColumns; c += kLanes * 8) {
      const int column = c + first_column;
      if (kColumns % (kLanes * 8) != 0 && column >= kColumns) break;
      tile::Elements<T::kS.dtype_kv, 8> narrow;
      narrow.Load(raw + row * T::kColumns + kAt + column);
      float x[8];
      narrow.Widen(x);
      prefill_mma::StoreRounded<T>(to + row * T::kStride + kAt + column, x);
    }
  }
}

/// The tile in a stage of those as they are into one of what is multiplied.
template <class T>
__device__ __forceinline__ void ConvertTile(typename T::SharedStorage& shared, int from, int to) {
  ConvertRows<T, T::kCkvColumns, 0>(shared.raw[from], shared.kv[to]);
  if constexpr (T::kColumns > T::kCkvColumns) {
    ConvertRows<T, T::kColumns - T::kCkvColumns, T::kCkvColumns>(shared.raw[from], shared.kv[to]);
  }
}

}  // namespace flashinfer::kernels::mla_mma
