// SPDX-License-Identifier: Apache-2.0
// Prefill on tensor cores: sizes that follow from a spec, and what threads know of their work.
#pragma once

#include "kernels/attention/prefill_spec.h"
#include "kernels/attention/variant.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/tile/element.cuh"
#include "kernels/tile/softmax.cuh"

namespace flashinfer::kernels::prefill_mma {

/// Where a token's key and value of the block's head begin.
struct alignas(16) TokenRows {
  const char* k;
  const char* v;
};

/// What a block works on.
struct Block {
  PrefillPiece piece;
  PrefillRequest request;
  int tile;  ///< blockIdx.y
  int kv_head;
  int vo_begin;    ///< first column of its values
  int num_rows;    ///< rows beyond are padding
  int seen_begin;  ///< keys from here to seen_end are seen by all rows, as causality
  int seen_end;    ///< and window go
};

template <PrefillSpec kSpec>
struct Traits {
  using V = NoVariant;
  using Element = uint16_t;
  static constexpr PrefillSpec kS = kSpec;
  static constexpr DType kCompute = PrefillComputeDType(kSpec.dtype_q);
  static constexpr int kThreads = NumThreads(kSpec);
  static constexpr int kRows = PrefillRows(kSpec);
  static constexpr int kRowTiles = kSpec.row_tiles;
  static constexpr int kKvTile = kSpec.kv_tile;
  static constexpr int kKeyTiles = kKvTile / 8;
  static constexpr int kQkColumns = kSpec.qk_columns;
  static constexpr int kVoColumns = kSpec.vo_columns;
  static constexpr int kQkSteps = kQkColumns / 16;
  static constexpr int kValueTiles = kVoColumns / 8;
  static constexpr int kQkStride = PrefillRowStride(kQkColumns);
  static constexpr int kVoStride = PrefillRowStride(kVoColumns);
  static constexpr int kQueryParts = PrefillQueryParts(kSpec);
  /// Outputs finer than what is multiplied take weights as two values that add up to them.
  static constexpr int kWeightParts =
      kSpec.dtype_out == DType::kF32 || (kSpec.dtype_out == DType::kF16 && kCompute == DType::kBF16)
          ? 2
          : 1;
  /// Keys and values go to shared memory as they are.
  static constexpr bool kCopies =
      kSpec.dtype_kv == kCompute && kSpec.kv_access_bytes == 16 && !kSpec.rope;
  /// Copies of the next tile are started between the products of this one.
  static constexpr bool kSpreadsCopies = kCopies;
  /// Scores become base-2 logits before their maximum is taken; else within the exponential.
  static constexpr bool kTransforms = kSpec.soft_cap || kSpec.alibi || kSpec.has_bias;
  static constexpr bool kScalesRows = kSpec.row_scales || kQueryParts > 1;
  /// Queries go to shared memory as they are; else widened, rotated, split and rounded.
  static constexpr bool kCopiesQuery =
      kSpec.dtype_q == kCompute && kSpec.q_access_bytes == 16 && !kSpec.rope && !kScalesRows;
  static_assert(kSpec.num_warps == 1 || kSpec.num_warps == 2 || kSpec.num_warps == 4 ||
                    kSpec.num_warps == 8,
                "num_warps must be 1, 2, 4 or 8");
  static_assert(kSpec.row_tiles == 1 || kSpec.row_tiles == 2, "row_tiles must be 1 or 2");
  static_assert((kKvTile == 16 || kKvTile == 32 || kKvTile == 64) && kKvTile <= kThreads,
                "kv_tile must be 16, 32 or 64, and at most the number of threads");
  static_assert(kQkColumns % 16 == 0 && kVoColumns % 16 == 0,
                "qk_columns and vo_columns must be multiples of 16");
  static_assert(kVoColumns * kRowTiles <= 256, "row_tiles * vo_columns must be at most 256");

  struct Inputs {
    uint16_t q[kQueryParts * kRows * kQkStride];
    uint16_t k[2][kKvTile * kQkStride];
    uint16_t v[2][kKvTile * kVoStride];
  };
  struct SharedStorage {
    union {
      alignas(16) Inputs in;
      alignas(16) float out[kRows * PrefillOutputStride(kVoColumns)];
    };
    TokenRows tokens[2 * kThreads];  ///< from the piece's begin on, in turns
    float row_scales[kRows];  ///< of a row's scores: to natural logits; without transform, base 2
    Block block;
    alignas(16) uint32_t is_last;
  };
  static_assert(sizeof(Block) == kPrefillBlockBytes);
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// The same with a user's variant.
template <PrefillSpec kSpec, class V_>
struct VariantTraits : Traits<kSpec> {
  using V = V_;
  static constexpr bool kTransforms = true;
  static constexpr bool kSpreadsCopies = Traits<kSpec>::kCopies && !V::TransformsKey();
  static constexpr bool kCopiesQuery = Traits<kSpec>::kCopiesQuery && !V::TransformsQuery();
};

/// Traits without a variant have no trace of one in their name, nor so in the kernel's symbols.
template <PrefillSpec kSpec, class V>
struct TraitsWith {
  using Type = VariantTraits<kSpec, V>;
};
template <PrefillSpec kSpec>
struct TraitsWith<kSpec, NoVariant> {
  using Type = Traits<kSpec>;
};

/// d += A B of a 16 x 16 and a 16 x 8 tile.
template <class T>
__device__ __forceinline__ void Multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  const uint32_t b[2] = {b0, b1};
  ptx::mma_m16n8k16<T::kCompute>(d, a, b);
}

/// Rounds two values to the type that is multiplied.
template <class T>
__device__ __forceinline__ uint32_t Pack(float x, float y) {
  const float pair[2] = {x, y};
  return tile::NarrowWord<T::kCompute>(pair);
}

/// A row as a query token of the request, and a head.
struct Row {
  int token;
  int head;
};

__device__ __forceinline__ Row RowAt(const PrefillParams& p, const Block& block, int row) {
  const uint32_t index = static_cast<uint32_t>(block.piece.row_begin + row);
  const uint32_t token = p.group_size.Divide(index);
  const uint32_t member = index - token * p.group_size.divisor;
  return {static_cast<int>(token),
          block.kv_head * static_cast<int>(p.group_size.divisor) + static_cast<int>(member)};
}

/// What a variant may know of a row.
__device__ __forceinline__ RowPosition RowPositionOf(const Block& block, Row row) {
  return {block.piece.request,  row.token, block.request.q_len,
          block.request.kv_len, row.head,  block.kv_head};
}

template <class T>
__device__ __forceinline__ Block MakeBlock(const PrefillParams& p) {
  Block b;
  b.piece = p.pieces[blockIdx.x];
  b.request = p.requests[b.piece.request];
  b.tile = static_cast<int>(blockIdx.y);
  b.kv_head = b.tile / T::kS.vo_slices;
  b.vo_begin = b.tile % T::kS.vo_slices * T::kVoColumns;
  const int rows = b.request.q_len * static_cast<int>(p.group_size.divisor);
  b.num_rows = min(T::kRows, rows - b.piece.row_begin);
  const int offset = b.request.kv_len - b.request.q_len;
  b.seen_begin = 0;
  if (p.window_left >= 0) {
    b.seen_begin = offset + RowAt(p, b, b.num_rows - 1).token - p.window_left;
  }
  b.seen_end = b.piece.kv_end;
  if (p.causal) b.seen_end = min(b.seen_end, offset + RowAt(p, b, 0).token + 1);
  return b;
}

template <class T>
struct Warp {
  int lane;
  int first_row;  ///< of the block's

  /// The row of a fragment's values 0 and 1 (half 0), 2 and 3 (half 1).
  __device__ __forceinline__ int RowOf(int row_tile, int half) const {
    return first_row + row_tile * 16 + half * 8 + lane / 4;
  }
  /// The column of a fragment's values 0 and 2 in the n-th tile of 8.
  __device__ __forceinline__ int ColumnOf(int n) const { return n * 8 + lane % 4 * 2; }
};

template <class T>
__device__ __forceinline__ Warp<T> MakeWarp() {
  return {static_cast<int>(threadIdx.x) % 32,
          static_cast<int>(threadIdx.x) / 32 * 16 * T::kRowTiles};
}

/// The running softmax of a warp's rows.
template <class T>
struct State {
  float o[T::kRowTiles][T::kValueTiles][4];
  float max[T::kRowTiles][2];  ///< of unscaled scores, or of logits where they are transformed
  float sum[T::kRowTiles][2];  ///< of this lane's columns
  float scale;                 ///< of scores; see SharedStorage::row_scales
  float row_scale[T::kRowTiles][2];  ///< the same, where rows have their own

  /// From a dot product to a natural logit, or when logits are not transformed to one of base 2.
  __device__ __forceinline__ float DotScale(int row_tile, int half) const {
    return T::kScalesRows ? row_scale[row_tile][half] : scale;
  }
  /// From what `max` and scores are to base-2 logits.
  __device__ __forceinline__ float ScaleOf(int row_tile, int half) const {
    return T::kTransforms ? 1.0f : DotScale(row_tile, half);
  }
};

template <class T>
__device__ __forceinline__ void ClearState(State<T>& s) {
  s.scale = 1;
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      s.max[m][half] = Unseen<typename T::V>();
      s.sum[m][half] = 0;
      s.row_scale[m][half] = 1;
    }
#pragma unroll
    for (int n = 0; n < T::kValueTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s.o[m][n][i] = 0;
    }
  }
}

__device__ __forceinline__ float ValueOf(const DecodeHeadValues& values, int64_t head) {
  return values.data[head * values.stride];
}

}  // namespace flashinfer::kernels::prefill_mma
