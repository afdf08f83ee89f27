// SPDX-License-Identifier: Apache-2.0
// Decode on CUDA cores: the sizes that follow from a spec, what a block shares, and who does what.
#pragma once

#include "kernels/attention/decode_spec.h"
#include "kernels/attention/variant.cuh"
#include "kernels/tile/element.cuh"

namespace flashinfer::kernels::decode_simt {

constexpr int Log2(int x) { return x <= 1 ? 0 : 1 + Log2(x / 2); }

template <DecodeSpec kSpec>
struct Traits {
  using V = NoVariant;
  static constexpr DecodeSpec kS = kSpec;
  /// Dot products become natural logits, and then what the softmax takes; else base-2 logits.
  static constexpr bool Transforms() { return kSpec.soft_cap; }
  static constexpr int kVec = kSpec.vector_size;
  static constexpr int kLanes = kSpec.token_lanes;
  static constexpr int kGroups = 32 / kLanes;  ///< tokens that a warp works on side by side
  static constexpr int kRows = kSpec.rows_tile;
  static constexpr int kTokens = kSpec.tokens_tile;
  static constexpr int kWarpTokens = kGroups * kTokens;
  static constexpr int kKvTile = DecodeKvTile(kSpec);
  static constexpr int kQkAccesses = kSpec.qk_accesses;
  static constexpr int kVoAccesses = kSpec.vo_accesses;
  static constexpr int kQkVec = kVec * kQkAccesses;  ///< columns of a key that a lane holds
  static constexpr int kVoVec = kVec * kVoAccesses;
  /// Floats of a lane that go through shared memory in one access, of queries and of outputs.
  static constexpr int kPart = DecodePart(kSpec);
  static constexpr int kQkParts = kQkVec / kPart;
  static constexpr int kVoParts = kVoVec / kPart;
  static constexpr int kStages = kSpec.num_stages;
  static constexpr int kAccessBytes = kVec * tile::SizeBytes(kSpec.dtype_kv);
  static constexpr int kScores = kRows * kTokens;
  /// Scores that each lane keeps after their sums, and lanes that keep the same ones.
  static constexpr int kLaneScores = kScores > kLanes ? kScores / kLanes : 1;
  static constexpr int kReplicas = kScores > kLanes ? 1 : kLanes / kScores;
  static_assert(kLanes == 8 || kLanes == 16 || kLanes == 32, "token_lanes must be 8, 16 or 32");
  static_assert(kRows == 1 || kRows == 2 || kRows == 4 || kRows == 8,
                "rows_tile must be 1, 2, 4 or 8");
  static_assert(kTokens == 1 || kTokens == 2 || kTokens == 4 || kTokens == 8,
                "tokens_tile must be 1, 2, 4 or 8");
  static_assert(kRows * kQkVec <= 128 && kRows * kVoVec <= 128,
                "rows_tile columns of a lane must fit into registers: at most 128");
  static_assert(kStages >= 2, "num_stages must be 2 or more");

  struct SharedStorage {
    /// The ring [stage, access, thread]; after it, the groups' outputs [warp, group, row, part,
    /// lane] of kPart floats.
    alignas(16) char ring[DecodeRingBytes(kSpec)];
    float q[kRows][kQkParts][kLanes][kPart];
    float weights[kDecodeWarps][kWarpTokens][kRows];
    float factors[kDecodeWarps][kRows];
    float maxima[kDecodeWarps][kRows];
    float sums[kDecodeWarps][kRows];
    alignas(16) uint32_t is_last;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
  using Access = tile::Elements<kSpec.dtype_kv, kVec>;
  using Part = tile::Elements<DType::kF32, kPart>;
};

/// The same with a user's variant.
template <DecodeSpec kSpec, class V_>
struct VariantTraits : Traits<kSpec> {
  using V = V_;
  static constexpr bool Transforms() { return true; }
};

/// Traits without a variant have no trace of one in their name, nor so in the kernel's symbols.
template <DecodeSpec kSpec, class V>
struct TraitsWith {
  using Type = VariantTraits<kSpec, V>;
};
template <DecodeSpec kSpec>
struct TraitsWith<kSpec, NoVariant> {
  using Type = Traits<kSpec>;
};

/// First column of a lane's part of a query or an output.
template <class T>
__device__ __forceinline__ int ColumnOf(int part, int lane) {
  const int element = part * T::kPart;
  return (element / T::kVec * T::kLanes + lane) * T::kVec + element % T::kVec;
}

/// Where a block's heads are.
struct Tile {
  int index;  ///< blockIdx.y
  int kv_head;
  int first_row;  ///< query head of the first row
  int num_rows;   ///< rows beyond are padding
};

__device__ __forceinline__ float ValueOf(const DecodeHeadValues& values, int64_t head) {
  return values.data[head * values.stride];
}

/// What a variant may know of a query head of a request.
template <class T>
__device__ __forceinline__ RowPosition RowPositionOf(const DecodeParams& p, const Tile& tile,
                                                     int request, int head) {
  const int kv_len = ValuesOf<typename T::V>(p).kv_lens[request];
  return {request, 0, 1, kv_len, head, tile.kv_head};
}

/// A thread's part of the loop over a piece.
template <class T>
struct Lane {
  int warp;
  int in_warp;
  int lane;  ///< within the token's group
  int group;
  int row;          ///< of the scores that it keeps
  int first_token;  ///< of the scores that it keeps, within the stage
};

/// The row whose scores a lane keeps. tile::SumScattered() gives lane bit 0 the highest bit of a
/// score's index (row, token), and so on.
template <class T>
__device__ __forceinline__ int RowOf(int lane) {
  constexpr int kBits = Log2(T::kRows);
  int row = 0;
#pragma unroll
  for (int bit = 0; bit < kBits; ++bit) row |= ((lane >> bit) & 1) << (kBits - 1 - bit);
  return row;
}

template <class T>
__device__ __forceinline__ Lane<T> MakeLane() {
  Lane<T> l;
  l.in_warp = static_cast<int>(threadIdx.x) % 32;
  l.warp = static_cast<int>(threadIdx.x) / 32;
  l.lane = l.in_warp % T::kLanes;
  l.group = l.in_warp / T::kLanes;
  l.row = RowOf<T>(l.lane);
  constexpr int kRowBits = Log2(T::kRows);
  constexpr int kBits = Log2(T::kScores < T::kLanes ? T::kScores : T::kLanes);
  l.first_token = 0;
#pragma unroll
  for (int bit = kRowBits; bit < kBits; ++bit) {
    l.first_token |= ((l.lane >> bit) & 1) << (Log2(T::kScores) - 1 - bit);
  }
  return l;
}

/// The running softmax of a warp. Maxima and sums are those of the row that the lane keeps.
template <class T>
struct State {
  float o[T::kRows][T::kVoVec];
  float max;
  float sum;  ///< of the lane's own scores
};

/// The token of a stage that a group works on as its t-th.
template <class T>
__device__ __forceinline__ int TokenOf(const Lane<T>& l, int t) {
  return l.warp * T::kWarpTokens + t * T::kGroups + l.group;
}

}  // namespace flashinfer::kernels::decode_simt
