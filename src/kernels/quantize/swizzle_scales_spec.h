// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/quantize/scale_layout.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::kernels {

/// Block b takes piece b % pieces of the rows of row tile b / pieces.
struct SwizzleScalesKernelParams {
  const uint8_t* linear;
  uint8_t* swizzled;
  int64_t num_rows;
  int64_t padded_rows;
  int64_t num_blocks;
  int64_t padded_blocks;
  int64_t linear_stride;
  Divisor pieces;  ///< of a row
};

/// Every field changes the machine code.
struct SwizzleScalesSpec {
  using Params = SwizzleScalesKernelParams;
  static constexpr const char* kName = "swizzle_scales.simt";
  static constexpr const char* kType = "SwizzleScalesSpec";
  static constexpr const char* kHeader = "kernels/quantize/swizzle_scales_simt_sm75.cuh";
  static constexpr const char* kNamespace = "swizzle_scales_simt";
  static constexpr int kMinArch = 75;

  int32_t tile_rows = kLargeTileRows;  ///< of the layout
  int32_t load_bytes = 16;             ///< of an access of a linear row
  int32_t store_bytes = 16;            ///< of an access of the layout

  friend constexpr bool operator==(const SwizzleScalesSpec&, const SwizzleScalesSpec&) = default;
};

template <FieldsOf<SwizzleScalesSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(tile_rows)
  FLASHINFER_NAMED(load_bytes)
  FLASHINFER_NAMED(store_bytes)
}

/// Scales of a row that a thread takes.
inline constexpr int32_t kSwizzleScales = 16;
/// Rows that share a group of 16 bytes of a large tile, 32 rows apart: a thread takes them all.
constexpr int32_t SwizzleThreadRows(const SwizzleScalesSpec& s) {
  return s.tile_rows == kLargeTileRows ? 4 : 1;
}
/// The adjacent bytes that a thread fills at once.
constexpr int32_t SwizzleRunBytes(const SwizzleScalesSpec& s) {
  return s.tile_rows == kSmallTileRows ? 4 : 16;
}

constexpr int32_t NumThreads(const SwizzleScalesSpec&) { return 256; }
constexpr int32_t SmemBytes(const SwizzleScalesSpec&) { return 0; }

/// Rows of a block of threads: 32 threads' rows.
constexpr int32_t SwizzleBlockRows(const SwizzleScalesSpec& s) { return 32 * SwizzleThreadRows(s); }
/// Scales of a row that a block of threads takes.
constexpr int32_t SwizzlePiece(const SwizzleScalesSpec& s) {
  return NumThreads(s) / 32 * kSwizzleScales;
}

}  // namespace flashinfer::kernels
