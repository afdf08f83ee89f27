// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores: queries and keys to shared memory, in the type that is
// multiplied, ckv and kpe of a row beside each other. What does not exist there is zeros.
#pragma once

#include "kernels/attention/mla_traits.cuh"
#include "kernels/attention/prefill_load.cuh"
#include "kernels/ptx/cp_async.cuh"

namespace flashinfer::kernels::mla_mma {

/// Queries of the block, with the sign of the scale: the largest score stays the largest. Ahead,
/// without it, and in the background where they are aligned.
template <class T>
__device__ __forceinline__ void LoadQuery(const MlaParams& params, const Block& block,
                                          typename T::Element* to) {
  constexpr int kUnits = T::kColumns / 8;  // of a row
  constexpr DType kQ = T::kS.dtype_q;
  const PrefillParams& p = params.attention;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < T::kRows * kUnits; i += T::kThreads) {
    const int row = i / kUnits;
    const int column = i % kUnits * 8;
    const int kpe_column = column - T::kCkvColumns;
    const bool is_kpe = kpe_column >= 0;
    const bool is_there = row < block.num_rows &&
                          (is_kpe ? kpe_column < params.head_dim_kpe : column < p.head_dim_vo);
    const void* from = p.q;
    if (is_there) {
      const Row at = prefill_mma::RowAt(p, block, row);
      const int64_t token = block.request.q_begin + int64_t{at.token};
      from = is_kpe
                 ? tile::At<kQ>(params.q_pe, token * params.q_pe_stride_token +
                                                 at.head * params.q_pe_stride_head + kpe_column)
                 : tile::At<kQ>(p.q, token * p.q_stride_token + at.head * p.q_stride_head + column);
    }
    typename T::Element* unit = to + row * T::kStride + column;
    if constexpr (T::kIsAhead && T::kS.q_access_bytes == 16) {
      ptx::cp_async_zfill(unit, from, is_there);
    } else {
      float x[8] = {};
      if (is_there) {
        prefill_mma::LoadFloats<kQ, 8, T::kS.q_access_bytes>(static_cast<const char*>(from), x);
      }
      if constexpr (!T::kIsAhead) {
#pragma unroll
        for (float& value : x) value *= params.q_sign;
      }
      prefill_mma::StoreRounded<T>(unit, x);
    }
  }
}

/// kColumns of a tile's rows, of which num_columns exist, from column kAt of their place on.
template <class T, int kColumns, int kAt, const char* TokenRows::*kRow>
__device__ __forceinline__ void CopyRows(const TokenRows* tokens, int num_columns, uint16_t* to) {
  constexpr int kLanes = prefill_mma::RowLanes(kColumns);
  constexpr int kRowsAtOnce = T::kThreads / kLanes;
  constexpr int kTurns = (T::kKvTile + kRowsAtOnce - 1) / kRowsAtOnce;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first_row = static_cast<int>(threadIdx.x) / kLanes;
  // All at once: one could not be looked up behind the copy of another.
  const char* rows[kTurns];
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int row = turn * kRowsAtOnce + first_row;
    rows[turn] = tokens[T::kKvTile % kRowsAtOnce == 0 || row < T::kKvTile ? row : 0].*kRow;
  }
  to += first_row * T::kStride + kAt;
#pragma unroll
  for (int c = 0; c < kColumns; c += kLanes * 8) {
    const int column = c + lane * 8;
    if (kColumns % (kLanes * 8) != 0 && column >= kColumns) break;
    const bool is_there = column < num_columns;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int row = turn * kRowsAtOnce;
      if (T::kKvTile % kRowsAtOnce != 0 && row + first_row >= T::kKvTile) break;
      const char* from = tile::At<T::kS.dtype_kv>(rows[turn], is_there ? column : 0);
      uint16_t* at = to + row * T::kStride + column;
      if constexpr (T::kCopies) {
        ptx::cp_async_zfill(at, from, is_there);
      } else {
        float x[8] = {};
        if (is_there) prefill_mma::LoadFloats<T::kS.dtype_kv, 8, T::kS.kv_access_bytes>(from, x);
        prefill_mma::StoreRounded<T>(at, x);
      }
    }
  }
}

/// Scales of a tile's tokens, of which this thread may have looked up one.
template <class T>
__device__ __forceinline__ void CopyScales(const MlaParams& params, const Block& block, int begin,
                                           float* to) {
  const PrefillParams& p = params.attention;
  for (int i = static_cast<int>(threadIdx.x); i < MlaScales(T::kMla); i += T::kThreads) {
    const int token = min(begin + i / T::kScaleBlocks, block.piece.kv_end - 1);
    const uint32_t index = p.page_size.Divide(static_cast<uint32_t>(token));
    const int64_t slot = token - static_cast<int>(index * p.page_size.divisor);
    const int64_t page = p.pages[(block.request.page_begin + int64_t{index}) * p.pages_stride];
    to[i] = params.ckv_scales[page * params.scales_stride_page + slot * params.scales_stride_token +
                              i % T::kScaleBlocks * params.scales_stride_block];
  }
}

/// Keys from `begin` on into a stage; copies go on in the background. shared.tokens[stage] says
/// where they are.
template <class T>
__device__ __forceinline__ void CopyTile(const MlaParams& params, const Block& block,
                                         typename T::SharedStorage& shared, int begin, int stage) {
  const PrefillParams& p = params.attention;
  const TokenRows* tokens = shared.tokens[stage];
  CopyRows<T, T::kCkvColumns, 0, &TokenRows::k>(tokens, p.head_dim_vo, shared.kv[stage]);
  if constexpr (T::kColumns > T::kCkvColumns) {
    CopyRows<T, T::kColumns - T::kCkvColumns, T::kCkvColumns, &TokenRows::v>(
        tokens, params.head_dim_kpe, shared.kv[stage]);
  }
  if constexpr (T::kScaleBlocks > 0) CopyScales<T>(params, block, begin, shared.scales[stage]);
  ptx::cp_async_commit_group();
}

/// Whether a key of the tile is one that some row of the block does not see.
template <class T>
__device__ __forceinline__ bool HasUnseen(const Block& block, int begin) {
  return begin < block.seen_begin || min(begin + T::kKvTile, block.piece.kv_end) > block.seen_end;
}

/// Values that are no numbers become 0 where some row does not see their key, so that a weight of 0
/// takes nothing from them. Rows that see such a key have a weight that is no number either.
template <class T>
__device__ __forceinline__ void ClearNonFinite(uint16_t* kv) {
  constexpr uint32_t kExponent = T::kCompute == DType::kBF16 ? 0x7f80 : 0x7c00;
  constexpr int kUnits = T::kCkvColumns / 2;
  for (int i = static_cast<int>(threadIdx.x); i < T::kKvTile * kUnits; i += T::kThreads) {
    auto* pair = reinterpret_cast<uint32_t*>(kv + i / kUnits * T::kStride + i % kUnits * 2);
    const uint32_t x = *pair;
    const bool low = (x & kExponent) == kExponent;
    const bool high = (x >> 16 & kExponent) == kExponent;
    if (low || high) *pair = (low ? 0 : x & 0xffffu) | (high ? 0 : x & 0xffff0000u);
  }
}

}  // namespace flashinfer::kernels::mla_mma
