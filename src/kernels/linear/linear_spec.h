// SPDX-License-Identifier: Apache-2.0
// Linear layers: what changes their kernels' code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/linear/weight_planes.h"

namespace flashinfer::kernels {

/// out = scale · x · Wᵀ + bias + residual; strides count elements.
struct LinearParams {
  const void* x;         ///< [num_tokens, cols]
  void* out;             ///< [num_tokens, num_rows]
  const float* bias;     ///< [num_rows], or null
  const void* residual;  ///< as out, or null
  WeightPlanes weight;
  int64_t x_stride;
  int64_t out_stride;
  int64_t residual_stride;
  int32_t num_rows;
  int32_t num_tokens;
  int32_t cols;
  float scale;
};

/// Few tokens, on CUDA cores. Every field changes the machine code.
struct LinearSimtSpec {
  using Params = LinearParams;
  static constexpr const char* kName = "linear.simt";
  static constexpr const char* kType = "LinearSimtSpec";
  static constexpr const char* kHeader = "kernels/linear/linear_simt_sm75.cuh";
  static constexpr const char* kNamespace = "linear_simt";
  static constexpr int kMinArch = 75;

  WeightFormat format = WeightFormat::kQ4_K;
  DType dtype_x = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int32_t cols = 4096;
  int32_t vector_size = 8;  ///< elements of an access to x: 8 or 1
  int32_t tokens_tile = 1;  ///< tokens that share each weight: 1, 2 or 4
  int32_t rows_tile = 1;    ///< rows that share each activation: 1, 2 or 4
  int32_t units_tile = 2;   ///< units of a row that a thread holds, and as many on their way
  int32_t row_lanes = 32;   ///< threads of a row: 8, 16 or 32
  int32_t block_threads = 512;

  friend constexpr bool operator==(const LinearSimtSpec&, const LinearSimtSpec&) = default;
};

template <FieldsOf<LinearSimtSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(dtype_x)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(cols)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(tokens_tile)
  FLASHINFER_NAMED(rows_tile)
  FLASHINFER_NAMED(units_tile)
  FLASHINFER_NAMED(row_lanes)
  FLASHINFER_NAMED(block_threads)
}

constexpr int32_t NumThreads(const LinearSimtSpec& spec) { return spec.block_threads; }

/// Sums of rounded activations that a format needs for each unit: none, of all 32, of each half.
constexpr int32_t NumActivationSums(WeightFormat format) {
  if (format == WeightFormat::kQ6_K) return 2;
  return HasMinimum(format) || QuantOffset(format) > 0 ? 1 : 0;
}

/// Bytes of a token's activations in shared memory, per unit: f32 for plain weights; 32 rounded to
/// 8 bits, their scale and sums for quantised ones.
constexpr int32_t ActivationUnitBytes(WeightFormat format) {
  return IsPlain(format) ? 4 * UnitValues(format) : 32 + 4 + 4 * NumActivationSums(format);
}
constexpr int64_t ActivationBytes(WeightFormat format, int64_t cols) {
  return UnitsOf(format, cols) * ActivationUnitBytes(format);
}

constexpr int32_t SmemBytes(const LinearSimtSpec& spec) {
  return static_cast<int32_t>(spec.tokens_tile * ActivationBytes(spec.format, spec.cols));
}

/// Rows that a block takes at a time.
constexpr int32_t LinearRowsPerBlock(const LinearSimtSpec& spec) {
  return spec.block_threads / spec.row_lanes * spec.rows_tile;
}

/// What the spec of a call depends on.
struct LinearShape {
  int64_t num_rows;
  int64_t num_tokens;
  int32_t num_sms;
  int32_t smem_bytes;  ///< of a block, at most
};

/// `fixed` holds format, dtypes, cols and vector size.
constexpr LinearSimtSpec MakeLinearSimtSpec(const LinearSimtSpec& fixed, const LinearShape& shape) {
  LinearSimtSpec s = fixed;
  s.tokens_tile = shape.num_tokens >= 3 ? 4 : shape.num_tokens == 2 ? 2 : 1;
  while (s.tokens_tile > 1 && SmemBytes(s) > shape.smem_bytes) s.tokens_tile /= 2;
  s.rows_tile = s.tokens_tile == 1 ? 1 : 2;
  const int64_t units = UnitsOf(s.format, s.cols);
  // H200, 2026-11-30. Rows of 128 units: 32 lanes take 7.4 µs for 4096 rows of Q4_K and 21.1 for
  // 28672, 16 lanes 8.0 and 21.9, 8 lanes up to 15.9 and 25.8. Of 18 units: 960 rows of Q4_1 take
  // 4.4 µs with 16 lanes and 4.6 with 32.
  s.row_lanes = units >= 32 ? 32 : units > 8 ? 16 : 8;
  // 512 threads round the activations half as often: 7.4 against 8.1 µs, 21.1 against 21.4.
  s.block_threads = shape.num_rows * units >= int64_t{1} << 18 ? 512 : 256;
  // Two units a row: 21.1 µs, four 21.9. MXFP4, whose codes take longest to decode: 26.5 and 24.1.
  const int32_t most = s.format == WeightFormat::kMXFP4 && s.rows_tile == 1 ? 4 : 2;
  const int64_t iterations = (units + s.row_lanes - 1) / s.row_lanes;
  s.units_tile = static_cast<int32_t>(iterations < most ? iterations : most);
  return s;
}

/// Many tokens and quantised weights, on tensor cores. Every field changes the machine code.
struct LinearMmaSpec {
  using Params = LinearParams;
  static constexpr const char* kName = "linear.mma";
  static constexpr const char* kType = "LinearMmaSpec";
  static constexpr const char* kHeader = "kernels/linear/linear_mma_sm75.cuh";
  static constexpr const char* kNamespace = "linear_mma";
  static constexpr int kMinArch = 75;

  WeightFormat format = WeightFormat::kQ4_K;
  DType dtype_x = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int32_t vector_size = 8;   ///< elements of an access to x: 8 or 1
  int32_t tokens_tile = 64;  ///< of a block: 8, 16, 32 or 64
  int32_t row_tiles = 2;     ///< tiles of 16 rows of a warp: 1 or 2
  int32_t row_warps = 8;     ///< warps that share tokens and columns
  int32_t col_warps = 1;     ///< warps that share rows, each of other columns: 1, 2 or 4
  int32_t num_stages = 3;    ///< of weights, one of them in use

  friend constexpr bool operator==(const LinearMmaSpec&, const LinearMmaSpec&) = default;
};

template <FieldsOf<LinearMmaSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(dtype_x)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(tokens_tile)
  FLASHINFER_NAMED(row_tiles)
  FLASHINFER_NAMED(row_warps)
  FLASHINFER_NAMED(col_warps)
  FLASHINFER_NAMED(num_stages)
}

constexpr int32_t NumThreads(const LinearMmaSpec& s) { return 32 * s.row_warps * s.col_warps; }
constexpr int32_t LinearRowsPerBlock(const LinearMmaSpec& s) {
  return 16 * s.row_tiles * s.row_warps;
}
/// Units of a row in a step: two for each warp along the columns.
constexpr int32_t LinearStepUnits(const LinearMmaSpec& s) { return 2 * s.col_warps; }

/// Bytes of a row's quants in shared memory, and of a token's: 16 more than there are, so that
/// eight rows of 16 bytes lie in different banks.
constexpr int32_t LinearQuantPitch(const LinearMmaSpec& s) { return LinearStepUnits(s) * 16 + 16; }
constexpr int32_t LinearTokenPitch(const LinearMmaSpec& s) { return LinearStepUnits(s) * 32 + 16; }

/// Of a stage: quants, and the plane `extra`, which Q8_0 has in the form of quants.
constexpr int32_t LinearQuantsBytes(const LinearMmaSpec& s) {
  return LinearRowsPerBlock(s) * LinearQuantPitch(s);
}
constexpr int32_t LinearStageBytes(const LinearMmaSpec& s) {
  if (s.format == WeightFormat::kQ8_0) return 2 * LinearQuantsBytes(s);
  return LinearQuantsBytes(s) +
         LinearRowsPerBlock(s) * LinearStepUnits(s) * PlaneBytesOf(s.format).plane[1];
}
/// What threads compute for a step: activations with a scale and two sums a unit; a scale and a
/// minimum of each row's unit.
constexpr int32_t LinearTileBytes(const LinearMmaSpec& s) {
  return s.tokens_tile * LinearTokenPitch(s) +
         LinearStepUnits(s) * 4 * (3 * s.tokens_tile + 2 * LinearRowsPerBlock(s));
}
constexpr int32_t SmemBytes(const LinearMmaSpec& s) {
  const int32_t steps = s.num_stages * LinearStageBytes(s) + 2 * LinearTileBytes(s);
  const int32_t sums = 4 * (s.col_warps - 1) * LinearRowsPerBlock(s) * s.tokens_tile;
  return steps > sums ? steps : sums;
}

/// `fixed` holds format, dtypes and vector size.
constexpr LinearMmaSpec MakeLinearMmaSpec(const LinearMmaSpec& fixed, const LinearShape& shape) {
  LinearMmaSpec s = fixed;
  s.row_tiles = 1;
  s.tokens_tile = 64;
  while (s.tokens_tile > 8 && shape.num_tokens <= s.tokens_tile / 2) s.tokens_tile /= 2;
  // H200, 2026-11-30, Q4_K of 28672 and 4096 rows of 4096. Of 8 tokens, 2 x 4 warps take 55.4 and
  // 20.1 µs, 8 x 1 75.2 and 70.9; of 16 tokens, 4 x 4 take 75.4 and 26.8, 8 x 1 82.8 and 69.1. Of
  // 512 tokens, 8 x 1 take 1110 µs, and with two tiles of rows 1083, but of Q8_0 971 and 1100.
  if (s.tokens_tile <= 32) {
    s.row_warps = s.tokens_tile == 8 ? 2 : 4;
    s.col_warps = 4;
    s.num_stages = 4;
  } else {
    // Half the tokens a block where blocks would leave SMs without: 3072 rows of 576, 23.8 µs.
    const int64_t blocks = (shape.num_rows + LinearRowsPerBlock(s) - 1) / LinearRowsPerBlock(s) *
                           ((shape.num_tokens + 63) / 64);
    if (2 * blocks < 3 * shape.num_sms) s.tokens_tile = 32;
  }
  while (s.num_stages > 2 && SmemBytes(s) > shape.smem_bytes) --s.num_stages;
  return s;
}

}  // namespace flashinfer::kernels
