// SPDX-License-Identifier: Apache-2.0
// Decode on tensor cores: keys and values of a slot's pieces on their way to shared memory. Each
// warp copies the tokens that it works on itself, some stages ahead and on into the next piece; a
// lane looks up one token's page, a stage before its copy.
#pragma once

#include "kernels/attention/decode_mma_traits.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/tile/reduce.cuh"

namespace flashinfer::kernels::decode_mma {

/// Accesses from a cache's begin to a token.
template <bool kIsWide>
struct RowOffset {
  using Type = uint32_t;
};
template <>
struct RowOffset<true> {
  using Type = int64_t;
};

template <class T>
class Copier {
 public:
  __device__ __forceinline__ Copier(const DecodeParams& p, const Tile& tile, const Lane& l,
                                    const DecodeSlot& slot)
      : p_(p),
        l_(l),
        piece_(slot.first_index),
        end_piece_(slot.first_index + slot.num_pieces),
        current_(slot.first),
        begin_(slot.first.kv_begin) {
    k_ = tile::At<T::kS.dtype_kv>(p.k, tile.kv_head * p.k_strides.head);
    v_ = tile::At<T::kS.dtype_kv>(p.v, tile.kv_head * p.v_strides.head);
    Prefetch();
    SkipEmpty();
    LookUp();
  }

  /// Waits until the warp's keys of the oldest stage are there; before CopyNext(). Values come in a
  /// group of their own, so that keys can be multiplied before.
  __device__ __forceinline__ void WaitForKeys() {
    ptx::cp_async_wait_group<2 * T::kStages - 3>();
    __syncwarp();
  }

  /// The same of its values; after CopyNext().
  __device__ __forceinline__ void WaitForValues() {
    ptx::cp_async_wait_group<2 * T::kStages - 2>();
    __syncwarp();
  }

  /// Starts the copy of the warp's tokens of the next stage, if there is one.
  __device__ __forceinline__ void CopyNext(char* stage) {
    if (piece_ < end_piece_) {
      const Row k_row = RowOf(p_.k_strides);
      const Row v_row = RowOf(p_.v_strides);
      begin_ += T::kKvTile;
      SkipEmpty();
      LookUp();
      CopyRows<T::kS.head_dim_qk, T::kQkPitch>(stage, k_, k_row);
      ptx::cp_async_commit_group();
      CopyRows<T::kS.head_dim_vo, T::kVoPitch>(stage + kDecodeMmaTokens * T::kQkPitch, v_, v_row);
    } else {
      ptx::cp_async_commit_group();  // waits count groups
    }
    ptx::cp_async_commit_group();
  }

 private:
  using Row = typename RowOffset<T::kS.wide_strides>::Type;

  __device__ __forceinline__ void Prefetch() {
    if (piece_ + 1 < end_piece_) next_ = p_.pieces[piece_ + 1];
  }

  /// On to the next piece that has tokens left.
  __device__ __forceinline__ void SkipEmpty() {
    while (begin_ >= current_.kv_end) {
      if (++piece_ == end_piece_) return;
      current_ = next_;
      begin_ = current_.kv_begin;
      Prefetch();
    }
  }

  /// Tokens behind the end are taken from the last one, and masked later.
  __device__ __forceinline__ void LookUp() {
    if (piece_ >= end_piece_) return;
    const int token =
        min(begin_ + l_.warp * kDecodeMmaTokens + l_.lane % kDecodeMmaTokens, current_.kv_end - 1);
    page_ = 0;
    slot_ = current_.page_begin + token;
    if (p_.pages == nullptr) return;
    const uint32_t page = p_.page_size.Divide(static_cast<uint32_t>(token));
    slot_ = token - static_cast<int>(page * p_.page_size.divisor);
    page_ = p_.pages[(current_.page_begin + static_cast<int64_t>(page)) * p_.pages_stride];
  }

  __device__ __forceinline__ Row RowOf(const DecodeCacheStrides& strides) const {
    return static_cast<Row>(page_) * static_cast<Row>(strides.page) +
           static_cast<Row>(slot_) * static_cast<Row>(strides.token);
  }

  template <int kHeadDim, int kPitch>
  __device__ __forceinline__ void CopyRows(char* to, const char* cache, Row row) {
    constexpr int kBytes = T::kS.access_bytes;
    constexpr int kAccesses = kHeadDim * DecodeElementBytes(T::kS.dtype_kv) / kBytes;  // of a row
    constexpr int kTotal = kDecodeMmaTokens * kAccesses;
#pragma unroll
    for (int i = 0; i < (kTotal + 31) / 32; ++i) {
      const int index = i * 32 + l_.lane;
      const int token = index / kAccesses;
      const int access = index % kAccesses;
      const Row token_row = __shfl_sync(tile::kFullWarp, row, token % kDecodeMmaTokens);
      if (kTotal % 32 != 0 && index >= kTotal) continue;
      const char* from = cache + static_cast<uint64_t>(token_row) * kBytes + access * kBytes;
      const int column = (access * kBytes) ^ DecodeMmaSwizzle(kPitch, token);
      ptx::cp_async<kBytes>(to + token * kPitch + column, from);
    }
  }

  const DecodeParams& p_;
  const Lane& l_;
  const char* k_;  ///< of the KV head
  const char* v_;
  int piece_;
  int end_piece_;
  DecodePiece current_;
  DecodePiece next_;
  int begin_;  ///< of the next stage
  int32_t page_;
  int32_t slot_;
};

}  // namespace flashinfer::kernels::decode_mma
