// SPDX-License-Identifier: Apache-2.0
// Decode on CUDA cores: keys and values of a piece on their way to shared memory, a ring of stages
// deep. A lane copies what it alone reads, and waits for nobody; the warp looks up its tokens'
// pages together, a token a lane, one stage ahead.
#pragma once

#include "kernels/attention/decode_simt_traits.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::decode_simt {

/// This thread's place for its first access of a stage; the next ones follow at kAccessStep.
template <class T>
__device__ __forceinline__ char* RingAt(char* ring, int stage) {
  return ring + stage * DecodeStageBytes(T::kS) + static_cast<int>(threadIdx.x) * T::kAccessBytes;
}

template <class T>
inline constexpr int kAccessStep = kDecodeThreads* T::kAccessBytes;

/// Columns that do not exist read as zeros.
template <class T>
__device__ __forceinline__ void ClearRing(const DecodeParams& p, const Lane<T>& l, char* ring) {
#pragma unroll
  for (int i = 0; i < T::kQkAccesses; ++i) {
    if ((i * T::kLanes + l.lane) * T::kVec < p.head_dim_qk) continue;
#pragma unroll 1
    for (int stage = 0; stage < T::kStages; ++stage) {
#pragma unroll 1
      for (int t = 0; t < T::kTokens; ++t) {
        ptx::st<T::kAccessBytes>(RingAt<T>(ring, stage) + (t * T::kQkAccesses + i) * kAccessStep<T>,
                                 ptx::Words<T::kAccessBytes>{});
      }
    }
  }
}

/// Accesses from a cache's begin to a token.
template <bool kIsWide>
struct RowOffset {
  using Type = uint32_t;
};
template <>
struct RowOffset<true> {
  using Type = int64_t;
};

/// Copies the stages of a piece, one after the other.
template <class T>
class Copier {
 public:
  __device__ __forceinline__ Copier(const DecodeParams& p, const Tile& tile,
                                    const DecodePiece& piece, const Lane<T>& l)
      : p_(p), piece_(piece), l_(l), begin_(piece.kv_begin) {
    const int64_t column = l.lane * T::kVec;
    k_ = tile::At<T::kS.dtype_kv>(p.k, tile.kv_head * p.k_strides.head + column);
    v_ = tile::At<T::kS.dtype_kv>(p.v, tile.kv_head * p.v_strides.head + column);
    LookUp();
  }

  /// Starts the copy of the next stage, if there is one, to `ring`: keys of all its tokens, then
  /// values.
  __device__ __forceinline__ void CopyNext(char* ring_at) {
    if (begin_ < piece_.kv_end) {
      const Row k_row = RowOf(p_.k_strides);
      const Row v_row = RowOf(p_.v_strides);
      begin_ += T::kKvTile;
      LookUp();
#pragma unroll
      for (int t = 0; t < T::kTokens; ++t) {
        CopyRow<T::kQkAccesses>(ring_at + t * T::kQkAccesses * kAccessStep<T>, k_, k_row, t,
                                p_.head_dim_qk);
        CopyRow<T::kVoAccesses>(
            ring_at + (T::kTokens * T::kQkAccesses + t * T::kVoAccesses) * kAccessStep<T>, v_,
            v_row, t, p_.head_dim_vo);
      }
    }
    ptx::cp_async_commit_group();
  }

 private:
  using Row = typename RowOffset<T::kS.wide_strides>::Type;

  /// The lane's token of the next stage; behind the end the last one, which is masked later.
  __device__ __forceinline__ void LookUp() {
    const int token =
        min(begin_ + l_.warp * T::kWarpTokens + l_.in_warp % T::kWarpTokens, piece_.kv_end - 1);
    page_ = 0;
    slot_ = piece_.page_begin + token;
    if (p_.pages == nullptr) return;
    const uint32_t page = p_.page_size.Divide(static_cast<uint32_t>(token));
    slot_ = token - static_cast<int>(page * p_.page_size.divisor);
    page_ = p_.pages[(piece_.page_begin + static_cast<int64_t>(page)) * p_.pages_stride];
  }

  __device__ __forceinline__ Row RowOf(const DecodeCacheStrides& strides) const {
    return static_cast<Row>(page_) * static_cast<Row>(strides.page) +
           static_cast<Row>(slot_) * static_cast<Row>(strides.token);
  }

  template <int kAccesses>
  __device__ __forceinline__ void CopyRow(char* to, const char* cache, Row row, int t,
                                          int head_dim) {
    const Row token_row = __shfl_sync(tile::kFullWarp, row, t * T::kGroups + l_.group);
    const char* from = cache + static_cast<uint64_t>(token_row) * T::kAccessBytes;
#pragma unroll
    for (int i = 0; i < kAccesses; ++i) {
      const int column = i * T::kLanes * T::kVec;
      if (column + l_.lane * T::kVec >= head_dim) continue;
      ptx::cp_async<T::kAccessBytes>(to + i * kAccessStep<T>,
                                     tile::At<T::kS.dtype_kv>(from, column));
    }
  }

  const DecodeParams& p_;
  const DecodePiece& piece_;
  const Lane<T>& l_;
  const char* k_;  ///< the lane's first column of the KV head
  const char* v_;
  int begin_;  ///< of the next stage
  int32_t page_;
  int32_t slot_;
};

}  // namespace flashinfer::kernels::decode_simt
