// SPDX-License-Identifier: Apache-2.0
// How weights lie in the memory of a CUDA device.
//
// A row is cut into units: 32 values of the quantised formats, 16 bytes of plain elements (a row's
// last unit is padded with zeros). What belongs to a unit is spread over planes, so that
// neighbouring threads load neighbouring words; in each plane units follow each other row by row.
//
//   quants  16 bytes: plain elements; or nibbles, byte i has value i in its low nibble and value
//           16 + i in its high one; of Q8_0 values 0..15
//   extra   Q8_0  16 bytes: values 16..31
//           Q5_*  4 bytes: bit j of byte i is the fifth bit of value 4j + i (value 16 + 4(j - 4) +
//           i
//                 from j = 4 on)
//           Q6_K  8 bytes: bits 2j of byte i are the high bits of value 4j + i; the second four
//                 bytes the same of values 16..31
//   scales  d f16 (Q4_0, Q5_0, Q8_0); d f16, m f16 (Q4_1, Q5_1); scale u8, min u8 (Q4_K, Q5_K);
//           scale i8 of values 0..15, of 16..31 (Q6_K); exponent u8 (MXFP4)
//   supers  one for eight units: d f16, dmin f16 (Q4_K, Q5_K); d f16 (Q6_K)
//
// Together they take the bytes of the file, but for Q4_K and Q5_K, whose scales of 6 bits take 8.
#pragma once

#include "flashinfer/weight_format.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

constexpr bool IsPlain(WeightFormat format) { return format <= WeightFormat::kBF16; }

/// Whether eight units share what multiplies their scales.
constexpr bool HasSupers(WeightFormat format) {
  return format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K ||
         format == WeightFormat::kQ6_K;
}
constexpr bool HasFifthBits(WeightFormat format) {
  return format == WeightFormat::kQ5_0 || format == WeightFormat::kQ5_1 ||
         format == WeightFormat::kQ5_K;
}
/// Whether a value is scale · quant + minimum.
constexpr bool HasMinimum(WeightFormat format) {
  return format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1 ||
         format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K;
}
/// What is subtracted from quants.
constexpr int32_t QuantOffset(WeightFormat format) {
  if (format == WeightFormat::kQ4_0) return 8;
  if (format == WeightFormat::kQ5_0) return 16;
  return format == WeightFormat::kQ6_K ? 32 : 0;
}

constexpr int32_t UnitValues(WeightFormat format) {
  if (format == WeightFormat::kF32) return 4;
  return IsPlain(format) ? 8 : 32;
}
constexpr int64_t UnitsOf(WeightFormat format, int64_t cols) {
  return (cols + UnitValues(format) - 1) / UnitValues(format);
}

inline constexpr int32_t kNumWeightPlanes = 4;
inline constexpr int32_t kUnitsPerSuper = 8;

/// Bytes of a unit in a plane (of eight units in the last).
struct WeightPlaneBytes {
  int32_t plane[kNumWeightPlanes];
};
constexpr WeightPlaneBytes PlaneBytesOf(WeightFormat f) {
  if (IsPlain(f)) return {{16, 0, 0, 0}};
  int32_t extra = HasFifthBits(f) ? 4 : 0;
  if (f == WeightFormat::kQ8_0) extra = 16;
  if (f == WeightFormat::kQ6_K) extra = 8;
  const bool is_wide = f == WeightFormat::kQ4_1 || f == WeightFormat::kQ5_1;
  const int32_t scales = f == WeightFormat::kMXFP4 ? 1 : is_wide ? 4 : 2;
  const int32_t supers = !HasSupers(f) ? 0 : f == WeightFormat::kQ6_K ? 2 : 4;
  return {{16, extra, scales, supers}};
}

/// Bytes of `rows` rows in a plane.
constexpr int64_t PlaneBytes(WeightFormat format, int32_t plane, int64_t rows, int64_t cols) {
  const int64_t units = rows * UnitsOf(format, cols);
  return (plane == 3 ? units / kUnitsPerSuper : units) * PlaneBytesOf(format).plane[plane];
}

/// Units that kernels may read beyond a plane's last one.
inline constexpr int32_t kSpareUnits = 8;

/// Where the planes of a matrix begin in its block of memory, each aligned to 256 bytes.
struct WeightPlaneOffsets {
  int64_t plane[kNumWeightPlanes];
  int64_t end;
};
constexpr WeightPlaneOffsets PlaneOffsets(WeightFormat format, int64_t rows, int64_t cols) {
  WeightPlaneOffsets offsets{};
  for (int32_t i = 0; i < kNumWeightPlanes; ++i) {
    offsets.plane[i] = offsets.end;
    const int64_t spare = int64_t{kSpareUnits} * PlaneBytesOf(format).plane[i];
    offsets.end += (PlaneBytes(format, i, rows, cols) + spare + 255) / 256 * 256;
  }
  return offsets;
}

/// The planes in device memory.
struct WeightPlanes {
  const char* quants;
  const char* extra;
  const char* scales;
  const char* supers;
};

}  // namespace flashinfer::kernels
