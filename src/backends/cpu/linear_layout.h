// SPDX-License-Identifier: Apache-2.0
// How packed weights lie in memory: the same for every instruction set.
//
// Rows come in panels of 16, whose values are interleaved so that one vector load feeds 16 rows.
// Quantised panels go by tiles of 32 columns. A tile's quants are unsigned; their offset (8 in
// Q4_0, 128 in Q8_0, 32 in Q6_K) is subtracted in integers through the sums of the activations:
//
//   nibbles   4 chunks of 64 bytes; byte (row * 4 + j) of chunk c has column 8c + j in its low
//             nibble and 8c + 4 + j in its high one
//   bytes     8 chunks of 64 bytes; byte (row * 4 + j) of chunk c is column 4c + j
//   high bits of Q6_K   2 chunks of 64 bytes; bits 2i of byte (row * 4 + j) of chunk h belong to
//             column 16h + 4i + j
//
//   Q4_0   tile: nibbles, d f16[16]
//   Q4_1   tile: nibbles, d f16[16], m f16[16]
//   Q8_0   tile: bytes (q + 128), d f16[16]
//   Q4_K   per 256 columns: d f16[16], dmin f16[16], then 8 tiles: nibbles, scale u8[16], min
//   u8[16] Q6_K   per 256 columns: d f16[16], 32 bytes of padding, then 8 tiles: nibbles, high
//   bits,
//          scale i8[16] of columns 0..15, scale i8[16] of columns 16..31
//   F32, F16   column by column: 16 values
//   BF16   two columns at a time: 16 pairs; an odd last column is paired with zeros
#pragma once

#include <cstdint>

#include "flashinfer/gemm.h"

namespace flashinfer::cpu {

inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kTileCols = 32;
inline constexpr int64_t kSuperCols = 256;
inline constexpr int64_t kNibbleBytes = 256;
inline constexpr int64_t kByteBytes = 512;
inline constexpr int64_t kHighBytes = 128;
inline constexpr int64_t kSuperHeaderBytes = 64;

constexpr bool IsQuantized(WeightFormat format) { return format >= WeightFormat::kQ4_0; }

/// Bytes of one tile of a quantised format, without the header of 256 columns.
constexpr int64_t TileBytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
      return kNibbleBytes + 32;
    case WeightFormat::kQ4_1:
      return kNibbleBytes + 64;
    case WeightFormat::kQ8_0:
      return kByteBytes + 32;
    case WeightFormat::kQ4_K:
      return kNibbleBytes + 32;
    case WeightFormat::kQ6_K:
      return kNibbleBytes + kHighBytes + 32;
    default:
      return 0;
  }
}

constexpr int64_t PanelBytes(WeightFormat format, int64_t cols) {
  switch (format) {
    case WeightFormat::kF32:
      return cols * kPanelRows * 4;
    case WeightFormat::kF16:
      return cols * kPanelRows * 2;
    case WeightFormat::kBF16:
      return (cols + 1) / 2 * 2 * kPanelRows * 2;
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ6_K:
      return cols / kSuperCols * kSuperHeaderBytes + cols / kTileCols * TileBytes(format);
    default:
      return cols / kTileCols * TileBytes(format);
  }
}

/// Activations of a call, prepared for the kernels: rounded to 8 bits per 32 columns for quantised
/// weights, and as floats for plain ones. Dense rows.
struct LinearActivations {
  int64_t cols;
  int8_t* quants = nullptr;  ///< [num_tokens, cols], in -127..127
  float* scales =
      nullptr;  ///< [num_tokens, cols / 32]: x is scale * quant; NaN where x is not finite
  int32_t* sums = nullptr;        ///< [num_tokens, cols / 16]: sums of 16 quants
  const float* floats = nullptr;  ///< [num_tokens, floats_stride]
  int64_t floats_stride = 0;
  uint16_t* pairs =
      nullptr;  ///< [num_tokens, cols rounded up to 2] bf16, for instruction sets that use it
};

/// Rows of one panel times tokens token_begin to token_end.
struct LinearPanelTask {
  const LinearActivations* activations;
  const uint8_t* panel;
  WeightFormat format;
  DType dtype_out;
  int num_rows;  ///< 1 to 16
  int64_t token_begin;
  int64_t token_end;
  char* out;  ///< of token 0 and the panel's first row; stride in elements
  int64_t out_stride;
  const float* bias;  ///< of the panel's first row, or null
  const char* residual;
  int64_t residual_stride;
};

}  // namespace flashinfer::cpu
