// SPDX-License-Identifier: Apache-2.0
// Decode on tensor cores: the numbers that follow from a spec, and who is who in a block.
#pragma once

#include "kernels/attention/decode_mma_spec.h"
#include "kernels/attention/variant.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::decode_mma {

template <DecodeMmaSpec kSpec>
struct Traits {
  using V = NoVariant;
  static constexpr DecodeMmaSpec kS = kSpec;
  static constexpr int kWarps = kSpec.num_warps;
  static constexpr int kThreads = NumThreads(kSpec);
  static constexpr int kStages = kSpec.num_stages;
  static constexpr int kRows = kSpec.rows_tile;
  static constexpr int kRowBlocks = kRows / 8;  ///< columns of B: 8 rows of queries
  static constexpr int kKvTile = DecodeMmaKvTile(kSpec);
  static constexpr bool kIsNarrow = DecodeElementBytes(kSpec.dtype_kv) == 1;
  /// What is multiplied: f16 holds every value of 8 bits, and takes them in fewest instructions.
  static constexpr DType kMma = kIsNarrow ? DType::kF16 : kSpec.dtype_q;
  static constexpr int kQkSteps = (kSpec.head_dim_qk + 15) / 16;  ///< of 16 columns
  static constexpr int kVoTiles = (kSpec.head_dim_vo + 15) / 16;
  static constexpr int kQkPitch = DecodeMmaPitch(kSpec, kSpec.head_dim_qk);
  static constexpr int kVoPitch = DecodeMmaPitch(kSpec, kSpec.head_dim_vo);
  static constexpr int kOutputPitch = DecodeMmaOutputPitch(kSpec);
  /// Scores become natural logits, and then what the softmax takes; else base-2 logits.
  static constexpr bool Transforms() { return kSpec.soft_cap; }
  static_assert(kSpec.dtype_q == DType::kF16 || kSpec.dtype_q == DType::kBF16,
                "dtype_q must be f16 or bf16");
  static_assert(kIsNarrow || kSpec.dtype_kv == kSpec.dtype_q,
                "dtype_kv must be dtype_q, or of 8 bits");
  static_assert(kSpec.head_dim_qk % 8 == 0 && kSpec.head_dim_vo % 8 == 0,
                "head_dim must be a multiple of 8");
  static_assert(kRows == 8 || kRows == 16 || kRows == 32, "rows_tile must be 8, 16 or 32");
  static_assert(kRows * kSpec.head_dim_qk <= 2048 && kRows * kSpec.head_dim_vo <= 2048,
                "rows_tile of a head must fit into registers: at most 2048 elements");
  static_assert(kWarps == 1 || kWarps == 2 || kWarps == 4 || kWarps == 8,
                "num_warps must be 1, 2, 4 or 8");
  static_assert(kStages >= 2, "num_stages must be 2 or more");

  struct SharedStorage {
    /// [stage, warp]: 16 keys, 16 values; or 8 rows of a warp's outputs. First of all, so that it
    /// begins at a multiple of 128 bytes, as the swizzle wants.
    alignas(16) char ring[kStages][kWarps][DecodeMmaWarpBytes(kSpec)];
    alignas(16) float2 sums[kRows][kWarps];  ///< maxima and sums of warps
    alignas(16) uint32_t is_last;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// The same with a user's variant.
template <DecodeMmaSpec kSpec, class V_>
struct VariantTraits : Traits<kSpec> {
  using V = V_;
  static constexpr bool Transforms() { return true; }
  static_assert(!V::TransformsQuery() && !V::TransformsKey(),
                "decode.mma multiplies queries and keys as they are: a variant of Query or Key "
                "needs decode.simt");
};

/// Traits without a variant have no trace of one in their name, nor so in the kernel's symbols.
template <DecodeMmaSpec kSpec, class V>
struct TraitsWith {
  using Type = VariantTraits<kSpec, V>;
};
template <DecodeMmaSpec kSpec>
struct TraitsWith<kSpec, NoVariant> {
  using Type = Traits<kSpec>;
};

/// Where a block's heads are.
struct Tile {
  int index;  ///< blockIdx.y
  int kv_head;
  int first_row;  ///< query head of the first row
  int num_rows;   ///< rows beyond are padding
};

/// What a variant may know of a query head of a request.
template <class T>
__device__ __forceinline__ RowPosition RowPositionOf(const DecodeParams& p, const Tile& tile,
                                                     int request, int head) {
  const int kv_len = ValuesOf<typename T::V>(p).kv_lens[request];
  return {request, 0, 1, kv_len, head, tile.kv_head};
}

struct Lane {
  int warp;
  int lane;
  int group;  ///< lane / 4: a token of keys, a row of queries as they are loaded
  int pair;   ///< lane % 4: two rows of scores and outputs
};

__device__ __forceinline__ Lane MakeLane() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return {static_cast<int>(threadIdx.x) / 32, lane, lane / 4, lane % 4};
}

__device__ __forceinline__ float ValueOf(const DecodeHeadValues& values, int64_t head) {
  return values.data[head * values.stride];
}

/// The running softmax of a warp and its outputs, transposed: columns of the head by rows of
/// queries. A lane has rows 8 r + 2 pair and 8 r + 2 pair + 1.
template <class T>
struct State {
  float o[T::kRowBlocks][T::kVoTiles][4];
  float max[T::kRowBlocks][2];  ///< may lag behind; see RaiseMaximum()
  float sum[T::kRowBlocks][2];  ///< of the lane's own scores
};

/// The column that element `i` of tile `tile` of a lane's outputs belongs to. Values of 8 bits come
/// from shared memory in pairs: even columns in the tile's upper half, odd ones in its lower.
template <class T>
__device__ __forceinline__ int ColumnOf(const Lane& l, int tile, int i) {
  if constexpr (T::kIsNarrow) return tile * 16 + 2 * l.group + i / 2;
  return tile * 16 + l.group + i / 2 * 8;
}

}  // namespace flashinfer::kernels::decode_mma
