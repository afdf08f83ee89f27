// SPDX-License-Identifier: Apache-2.0
// Where block scales lie, as kernels see it: a layout is the rows of its tiles.
#pragma once

#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Rows of a tile, each of 4 blocks: ScaleLayout's kLinear, k8x4 and k128x4.
inline constexpr int32_t kLinearTileRows = 1;
inline constexpr int32_t kSmallTileRows = 8;
inline constexpr int32_t kLargeTileRows = 128;

/// Where the scale of a row and block lies, in bytes. `padded_blocks` is a multiple of 4 where a
/// tile has several rows.
constexpr int64_t ScaleOffset(int32_t tile_rows, int64_t row, int64_t block,
                              int64_t padded_blocks) {
  const auto in_tile = static_cast<uint32_t>(row) & static_cast<uint32_t>(tile_rows - 1);
  const uint32_t place =
      tile_rows == kLargeTileRows ? in_tile % 32 * 16 + in_tile / 32 * 4 : in_tile * 4;
  return (row - in_tile) * padded_blocks + (block >> 2) * (4 * tile_rows) + place + (block & 3);
}

}  // namespace flashinfer::kernels
