// SPDX-License-Identifier: Apache-2.0
// Copies block scales from rows into tiles. A thread takes 16 scales of a row, or of the four rows
// that a tile of 128 keeps together; of a warp, 8 threads are below each other and 4 beside each
// other, so that whole sectors are read and written. Padding is written as 0. Bound by bytes.
#pragma once

#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/quantize/swizzle_scales_spec.h"
#include "kernels/tile/words.cuh"

namespace flashinfer::kernels::swizzle_scales_simt {

constexpr bool IsAccess(int bytes, int limit) {
  return bytes >= 1 && bytes <= limit && (bytes & (bytes - 1)) == 0;
}

template <SwizzleScalesSpec kSpec>
struct Traits {
  static constexpr SwizzleScalesSpec kS = kSpec;
  static constexpr int kRows = SwizzleThreadRows(kSpec);
  static constexpr int kWords = kSwizzleScales / 4;  // a word is a row of a tile
  static_assert(kSpec.tile_rows == kLinearTileRows || kSpec.tile_rows == kSmallTileRows ||
                    kSpec.tile_rows == kLargeTileRows,
                "tile_rows must be 1, 8 or 128");
  static_assert(IsAccess(kSpec.load_bytes, 16), "load_bytes must be a power of two up to 16");
  static_assert(IsAccess(kSpec.store_bytes, SwizzleRunBytes(kSpec)),
                "store_bytes must be a power of two up to 16, of tiles of 8 rows up to 4");
};

/// A thread's scales, of which there may be none.
struct Place {
  int64_t row;    ///< the first
  int64_t block;  ///< the first
};

template <class T>
__device__ __forceinline__ Place PlaceOf(const SwizzleScalesKernelParams& p) {
  const uint32_t rows = p.pieces.Divide(blockIdx.x);
  const uint32_t piece = blockIdx.x - rows * p.pieces.divisor;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return {int64_t{rows} * SwizzleBlockRows(T::kS) + warp % 4 * 8 + lane % 8,
          int64_t{piece} * SwizzlePiece(T::kS) + (warp / 4 * 4 + lane / 8) * kSwizzleScales};
}

/// Tiles of several rows: of each tile that the thread's scales reach into, its rows' words.
template <class T>
__device__ __forceinline__ void StoreTiles(const SwizzleScalesKernelParams& p, const Place& place,
                                           const uint32_t (&words)[T::kRows][T::kWords]) {
#pragma unroll
  for (int i = 0; i < T::kWords; ++i) {
    const int64_t block = place.block + i * 4;
    if (block >= p.padded_blocks) break;
    uint32_t run[T::kRows];
#pragma unroll
    for (int r = 0; r < T::kRows; ++r) run[r] = words[r][i];
    tile::StoreWords<T::kS.store_bytes>(
        p.swizzled + ScaleOffset(T::kS.tile_rows, place.row, block, p.padded_blocks), sizeof(run),
        run);
  }
}

template <SwizzleScalesSpec kSpec>
__device__ __forceinline__ void Run(const SwizzleScalesKernelParams& p) {
  using T = Traits<kSpec>;
  const Place place = PlaceOf<T>(p);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if (place.row >= p.padded_rows || place.block >= p.padded_blocks) return;
  uint32_t words[T::kRows][T::kWords];
#pragma unroll
  for (int r = 0; r < T::kRows; ++r) {
    const int64_t row = place.row + r * 32;
    tile::LoadWords<kSpec.load_bytes>(p.linear + row * p.linear_stride + place.block,
                                      row < p.num_rows ? p.num_blocks - place.block : 0, words[r]);
  }
  if constexpr (kSpec.tile_rows == kLinearTileRows) {
    tile::StoreWords<kSpec.store_bytes>(p.swizzled + place.row * p.padded_blocks + place.block,
                                        p.padded_blocks - place.block, words[0]);
  } else {
    StoreTiles<T>(p, place, words);
  }
}

}  // namespace flashinfer::kernels::swizzle_scales_simt
