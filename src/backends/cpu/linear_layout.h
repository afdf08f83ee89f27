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
//   fifth bits of Q5_0, Q5_1, Q5_K   64 bytes; bit c of byte (row * 4 + j) belongs to column
//             4c + j
//
//   Q4_0   tile: nibbles, d f16[16]
//   Q4_1   tile: nibbles, d f16[16], m f16[16]
//   Q8_0   tile: bytes (q + 128), d f16[16]
//   Q4_K   per 256 columns: d f16[16], dmin f16[16], packed scales u32[3][16];
//          then 8 tiles: nibbles
//   Q6_K   per 256 columns: d f16[16], 32 bytes of padding;
//          then 8 tiles: nibbles, high bits, scale i8[16] of columns 0..15, i8[16] of 16..31
//   Q5_0, Q5_1, Q5_K   as Q4_0 (its offset is 16), Q4_1 and Q4_K, with fifth bits after the nibbles
//
// Packed scales are 16 numbers of 6 bits for each row: the scales of the 8 tiles, then their mins.
// Number i < 15 is in word i / 5 from bit 6 · (i % 5) on; the last one has two bits at the top of
// each word. So Q4_K and Q5_K take no more bytes than in GGUF, in whole cache lines.
//
//   MXFP4  tile: nibbles (codes of e2m1), exponents u8[16]
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
inline constexpr int64_t kFifthBytes = 64;
inline constexpr int64_t kPackedScaleWords = 3;

constexpr bool IsQuantized(WeightFormat format) { return format >= WeightFormat::kQ4_0; }

/// Whether 256 columns share a header.
constexpr bool IsSuper(WeightFormat format) {
  return format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K ||
         format == WeightFormat::kQ6_K;
}

constexpr bool HasPackedScales(WeightFormat format) {
  return format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K;
}

/// What precedes the tiles of 256 columns.
constexpr int64_t SuperHeaderBytes(WeightFormat format) {
  if (!IsSuper(format)) return 0;
  return 4 * kPanelRows * (HasPackedScales(format) ? 1 + kPackedScaleWords : 1);
}

constexpr bool HasFifthBits(WeightFormat format) {
  return format == WeightFormat::kQ5_0 || format == WeightFormat::kQ5_1 ||
         format == WeightFormat::kQ5_K;
}

/// MXFP4's codes as unsigned quants: twice the e2m1 value, plus 16.
constexpr uint8_t kE2m1Quants[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

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
      return kNibbleBytes;
    case WeightFormat::kQ6_K:
      return kNibbleBytes + kHighBytes + 32;
    case WeightFormat::kQ5_0:
      return kNibbleBytes + kFifthBytes + 32;
    case WeightFormat::kQ5_K:
      return kNibbleBytes + kFifthBytes;
    case WeightFormat::kQ5_1:
      return kNibbleBytes + kFifthBytes + 64;
    case WeightFormat::kMXFP4:
      return kNibbleBytes + 16;
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
    default:
      return cols / kSuperCols * SuperHeaderBytes(format) + cols / kTileCols * TileBytes(format);
  }
}

/// 32 columns of a block of tokens, rounded to 8 bits: x = scale * quant, with quants in -127..127.
/// Where x is not finite the scale is NaN and the quants are 0.
template <int kTokens>
struct ActivationTile {
  int8_t quants[kTokens][kTileCols];
  float scales[kTokens];
  float scaled_sums[kTokens];              ///< scale * sum of the quants
  int32_t negative_sums[kTokens];          ///< -sum of the 32 quants
  int32_t negative_half_sums[2][kTokens];  ///< of columns 0..15 and 16..31
};
inline constexpr int64_t kActivationTileBytes = 52;  ///< per token
static_assert(sizeof(ActivationTile<3>) == 3 * kActivationTileBytes);

/// Activations of a call as the kernels read them. Tokens go by blocks (as large as the instruction
/// set has registers for, smaller ones at the end), the blocks' tokens interleaved, so that a block
/// is one stream. A block of T tokens holds
///
///   tiles   [cols / 32]      ActivationTile<T>, for quantised weights
///   floats  [cols, T]        for plain weights
///   pairs   [cols / 2, T]    two bf16, an odd last one with 0, for instruction sets that use them
///
/// and begins at its first token times the bytes per token.
struct LinearActivations {
  int64_t cols = 0;
  uint8_t* tiles = nullptr;
  float* floats = nullptr;
  uint32_t* pairs = nullptr;
};

/// Rows of x to prepare.
struct LinearInput {
  const void* x;
  DType dtype;
  int64_t stride;
};

/// Up to `panels_per_task` panels times all tokens.
struct LinearPanelTask {
  const LinearActivations* activations;
  const uint8_t* panel;
  int64_t panel_bytes;
  WeightFormat format;
  DType dtype_out;
  int num_rows;  ///< of all panels
  int64_t num_tokens;
  char* out;  ///< of token 0 and the first row; stride in elements
  int64_t out_stride;
  float scale;        ///< of the product
  const float* bias;  ///< of the first row, or null
  const char* residual;
  int64_t residual_stride;
};

}  // namespace flashinfer::cpu
