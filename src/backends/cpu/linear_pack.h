// SPDX-License-Identifier: Apache-2.0
// Between the blocks of GGUF files and packed panels.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/linear_layout.h"

namespace flashinfer::cpu {

/// 32 columns of one row as unsigned quants, and what multiplies them, as stored.
struct RowTile {
  std::array<uint8_t, 32> q{};
  uint16_t d = 0;  ///< f16 bits; of the 256 columns in K formats
  uint16_t m = 0;  ///< f16 bits; Q4_1's m, Q4_K's dmin
  /// Q4_K, Q5_K: scale, min; Q6_K: of columns 0..15, 16..31 (i8 bits); MXFP4: exponent, nothing
  std::array<uint8_t, 2> scales{};
};

/// Tile `t` of a row of GGUF blocks.
RowTile ReadTile(WeightFormat format, const uint8_t* row, int64_t t);

/// Packs rows `row` to `row + 16` of `source` (those that there are; zeros for the others).
void PackPanel(const WeightView& source, int64_t row, uint8_t* panel);

/// Dequantises one row of a panel.
void UnpackRow(WeightFormat format, const uint8_t* panel, int64_t row_in_panel, int64_t cols,
               float* out);

}  // namespace flashinfer::cpu
