// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores: sizes that follow from a spec, and who is who in a block.
#pragma once

#include "kernels/attention/mla_spec.h"
#include "kernels/attention/prefill_traits.cuh"
#include "kernels/ptx/barrier.cuh"

namespace flashinfer::kernels::mla_mma {

using prefill_mma::Block;
using prefill_mma::Row;
using prefill_mma::TokenRows;  ///< k is ckv, v is kpe

/// The pieces of prefill that this kernel uses ask for its names.
template <MlaSpec kSpec>
struct Traits {
  using V = NoVariant;
  using Element = uint16_t;
  static constexpr MlaSpec kMla = kSpec;
  static constexpr PrefillSpec kS = {.dtype_q = kSpec.dtype_q,
                                     .dtype_kv = kSpec.dtype_kv,
                                     .dtype_out = kSpec.dtype_out,
                                     .vo_slices = 1,
                                     .kv_access_bytes = kSpec.kv_access_bytes,
                                     .q_access_bytes = kSpec.q_access_bytes,
                                     .out_access_bytes = kSpec.out_access_bytes,
                                     .soft_cap = kSpec.soft_cap};
  static constexpr DType kCompute = kSpec.dtype_q;
  static constexpr int kThreads = NumThreads(kSpec);
  static constexpr int kRows = MlaRows(kSpec);
  static constexpr int kRowTiles = kSpec.row_tiles;
  static constexpr int kKvTile = kSpec.kv_tile;
  static constexpr int kStages = kSpec.num_stages;
  static constexpr bool kIsAhead = MlaIsAhead(kSpec);
  /// Keys come to shared memory as they are, and are converted there.
  static constexpr bool kConverts = kSpec.raw_stages > 0;
  static constexpr int kCopyStages = MlaCopyStages(kSpec);
  static constexpr int kColumnWarps = kSpec.column_warps;
  static constexpr int kPartWarps = kSpec.part_warps;
  static constexpr bool kHasScoreWarps = kSpec.score_warps;
  static constexpr int kPartSteps = MlaPartSteps(kSpec);
  static constexpr int kKeyWarps = MlaKeyWarps(kSpec);
  static constexpr int kWarpKeys = kKvTile / kKeyWarps;
  static constexpr int kWarpKeyTiles = kWarpKeys / 8;
  /// Of the scores that a warp makes weights of: ahead, those of all keys.
  static constexpr int kKeyTiles = kIsAhead ? kKvTile / 8 : kWarpKeyTiles;
  static constexpr int kCkvColumns = kSpec.ckv_columns;
  static constexpr int kColumns = kCkvColumns + kSpec.kpe_columns;
  static constexpr int kStride = MlaRowStride(kSpec);
  static constexpr int kVoColumns = kCkvColumns;
  static constexpr int kWarpColumns = MlaWarpColumns(kSpec);
  static constexpr int kValueTiles = kWarpColumns / 8;  ///< of a warp's outputs
  static constexpr int kWeightParts = MlaWeightParts(kSpec);
  static constexpr bool kWeightsInKeys = MlaWeightsInKeys(kSpec);
  static constexpr int kWeightStride = kWeightsInKeys ? kStride : PrefillRowStride(kKvTile);
  static constexpr int kPartStride = kWeightsInKeys ? kKvTile : kRows * kWeightStride;
  static constexpr int kScaleBlocks = kSpec.scale_blocks;
  /// Columns of a scale.
  static constexpr int kScaleColumns = kCkvColumns / (kScaleBlocks == 0 ? 1 : kScaleBlocks);
  /// Keys go to shared memory as they are.
  static constexpr bool kCopies = kSpec.dtype_kv == kCompute && kSpec.kv_access_bytes == 16;
  static constexpr bool kTransforms = kSpec.soft_cap;
  static constexpr bool kScalesRows = false;
  static_assert(kSpec.dtype_q == DType::kF16 || kSpec.dtype_q == DType::kBF16,
                "dtype_q must be f16 or bf16");
  static_assert(kSpec.dtype_kv == kSpec.dtype_q || DecodeElementBytes(kSpec.dtype_kv) == 1,
                "dtype_kv must be dtype_q, or of 8 bits");
  static_assert(kSpec.row_warps == 1 || kSpec.row_warps == 2, "row_warps must be 1 or 2");
  static_assert(kRowTiles == 1 || kRowTiles == 2, "row_tiles must be 1 or 2");
  static_assert(kColumnWarps == 2 || kColumnWarps == 4 || (kColumnWarps == 8 && kIsAhead),
                "column_warps must be 2 or 4, or with more than 2 stages 8");
  static_assert(kStages >= 2 && kStages <= 8, "num_stages must be 2 to 8");
  static_assert(!kIsAhead || kRows == 16, "more than 2 stages are for 16 rows");
  static_assert(!kConverts || (DecodeElementBytes(kSpec.dtype_kv) == 1 && kScaleBlocks == 0),
                "raw_stages are for a dtype_kv of 8 bits, without scale_blocks");
  static_assert(!kConverts || (kCopyStages >= 2 && kCopyStages <= 8), "raw_stages must be 2 to 8");
  static_assert(!kIsAhead || kSpec.dtype_kv == kSpec.dtype_q ||
                    (kConverts && kStages == kMlaConvertedStages),
                "of 8 bits, more than 2 stages are 3, with raw_stages");
  static_assert(!kIsAhead || kPartWarps * kKeyWarps == kColumnWarps,
                "part_warps times keys of 8 or more must be column_warps");
  static_assert(kIsAhead ? kPartWarps == 2 || kPartWarps == 4 : kPartWarps == 1,
                "part_warps must be 1, or with more than 2 stages 2 or 4");
  static_assert(kIsAhead || !kSpec.score_warps, "score_warps needs more than 2 stages");
  static_assert(!kIsAhead || MlaCanBeAhead(kSpec),
                "a warp's part of the columns must have room for kpe_columns");
  static_assert(kKvTile == 16 || kKvTile == 32 || kKvTile == 64, "kv_tile must be 16, 32 or 64");
  static_assert(kCkvColumns % 16 == 0 && kSpec.kpe_columns % 16 == 0,
                "ckv_columns and kpe_columns must be multiples of 16");
  static_assert(kRowTiles * kWarpColumns <= 256,
                "row_tiles * ckv_columns / column_warps must be at most 256");
  static_assert(kScaleBlocks == 0 || (kCkvColumns % kScaleBlocks == 0 && kScaleColumns % 32 == 0),
                "scale_blocks must divide ckv_columns into multiples of 32");

  struct SharedStorage {
    alignas(16) uint16_t q[MlaQueryElements(kSpec)];
    uint16_t kv[kStages][kKvTile * kStride];
    uint16_t weights[MlaWeightElements(kSpec)];  ///< ahead: scores
    uint8_t raw[kCopyStages][MlaRawBytes(kSpec)];
    TokenRows tokens[kCopyStages][kKvTile];
    float scales[kCopyStages][MlaScales(kSpec)];
    float rows[kKeyWarps][kRows];  ///< maxima of a tile's scores, and at the end sums
    Block block;
    alignas(16) uint32_t is_last;
  };
  static_assert(sizeof(SharedStorage) == SmemBytes(kSpec));
};

/// A barrier of all threads, whose warps come to it at places of their own: where they have roles,
/// and where the compiler makes code of its own for warps that have nothing to do.
template <class T>
__device__ __forceinline__ void SyncWarps() {
  ptx::barrier_sync<1, T::kThreads>();
}

template <class T>
struct Warp : prefill_mma::Warp<T> {
  int column_begin;  ///< of its outputs; kCkvColumns or more: it has none
  int key_warp;      ///< whose scores it computes; kKeyWarps or more: of none
  int part;          ///< of the columns, from which it computes them
  bool has_scores;   ///< whether it does

  __device__ __forceinline__ bool has_rows(const Block& block) const {
    return this->first_row < block.num_rows;
  }
  __device__ __forceinline__ bool has_keys() const { return key_warp < T::kKeyWarps; }
  /// Of the tile's.
  __device__ __forceinline__ int first_key() const { return key_warp * T::kWarpKeys; }
};

template <class T>
__device__ __forceinline__ Warp<T> MakeWarp() {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int column_warp = warp % T::kColumnWarps;
  const int row_warp = warp / T::kColumnWarps;
  Warp<T> w;
  w.lane = static_cast<int>(threadIdx.x) % 32;
  w.first_row = row_warp * 16 * T::kRowTiles;
  w.column_begin = column_warp * T::kWarpColumns;
  w.key_warp = T::kPartWarps == 1 ? column_warp : column_warp % T::kKeyWarps;
  w.part = column_warp / T::kKeyWarps;
  w.has_scores = true;
  if constexpr (T::kHasScoreWarps) {
    w.first_row = 0;
    w.has_scores = row_warp == 0;
    if (w.has_scores) w.column_begin = T::kCkvColumns;
  }
  return w;
}

}  // namespace flashinfer::kernels::mla_mma
