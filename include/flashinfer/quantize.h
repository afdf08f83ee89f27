// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 and 4 bits, back, and packing of bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Which bit of a byte holds the first of eight values.
enum class BitOrder : uint8_t {
  kBig,     ///< the most significant
  kLittle,  ///< the least significant: what packed attention masks use
};

/// Packs truth values into bits, as numpy.packbits does; the last byte is filled with zeros.
///
///   x       [n]              bool or u8 (any nonzero byte is true), dense
///   packed  [ceil(n / 8)]    u8, dense
FLASHINFER_API void PackBits(const TensorView& x, const TensorView& packed,
                             BitOrder order = BitOrder::kBig, Backend backend = Backend(),
                             Stream stream = {});

/// The segments of SegmentPackBits(), all in host memory.
///
///   indptr         [num_segments + 1]  i32, non-decreasing, first 0: where segments begin in x
///   packed_indptr  [num_segments + 1]  i32, written: where they begin in packed
struct BitSegments {
  TensorView indptr;
  TensorView packed_indptr;
};

/// Packs each segment on its own, so that every segment begins on a byte.
///
///   x       [indptr[num_segments]]      bool or u8, dense
///   packed  [SegmentPackBitsBytes()]    u8, dense; it may be longer, and the rest is left alone
FLASHINFER_API void SegmentPackBits(const TensorView& x, const BitSegments& segments,
                                    const TensorView& packed, BitOrder order = BitOrder::kBig,
                                    Backend backend = Backend(), Stream stream = {});

/// Bytes that SegmentPackBits() writes.
FLASHINFER_API int64_t SegmentPackBitsBytes(const TensorView& indptr);

struct QuantizeOptions {
  bool dynamic = true;        ///< scales are computed and written; else they are read
  float min_scale = 1e-10f;   ///< a computed scale is at least this
  bool power_of_two = false;  ///< a computed scale is rounded up to a power of two
  Backend backend = Backend();
};

/// Quantises rows to 8 bits with float32 scales: q = x · (1 / scale), rounded to nearest even and
/// saturated. The shape of `scales` tells which elements share one:
///
///   x       [num_rows, hidden_size]  f32, f16, bf16
///   q       [num_rows, hidden_size]  e4m3, e5m2, i8
///   scales  [1]                      f32: one for the tensor
///           [num_rows, 1]            f32: per token
///           [num_rows, num_groups]   f32: per group of hidden_size / num_groups elements of a row;
///                                    any strides, so column-major scales are a transposed view
///
/// A computed scale is the largest finite |x| divided by the largest value of q's dtype. Infinite
/// elements saturate; NaN stays NaN in fp8 and becomes 0 in i8.
FLASHINFER_API void Quantize(const TensorView& x, const TensorView& q, const TensorView& scales,
                             const QuantizeOptions& options = {}, Stream stream = {});

/// out = q · scale; shapes as in Quantize(), `out` as x.
FLASHINFER_API void Dequantize(const TensorView& q, const TensorView& scales, const TensorView& out,
                               Backend backend = Backend(), Stream stream = {});

/// Where the scale of row m and block k of [num_rows, num_blocks] lies, in bytes. The swizzled
/// layouts are what tensor cores of SM100 read; rows are padded to whole tiles and blocks to 4, and
/// padding is written as 0.
enum class ScaleLayout : uint8_t {
  kLinear,  ///< m · num_blocks + k
  k128x4,   ///< tiles of 128 rows and 4 blocks, 512 bytes each, row-major; in a tile
            ///< (m % 32) · 16 + (m % 128) / 32 · 4 + k % 4
  k8x4,     ///< tiles of 8 rows and 4 blocks, 32 bytes each, row-major; in a tile
            ///< (m % 8) · 4 + k % 4
};

/// `linear`, `128x4`, `8x4`.
FLASHINFER_API std::string_view Name(ScaleLayout layout);

/// Bytes of the scales of num_rows x num_blocks blocks.
FLASHINFER_API int64_t BlockScaleBytes(ScaleLayout layout, int64_t num_rows, int64_t num_blocks);

/// Copies scales from the linear layout to another, padding written as 0: for checkpoints, which
/// hold them linear.
///
///   linear    [num_rows, num_blocks]                           e8m0, e4m3 or u8
///   swizzled  [BlockScaleBytes(layout, num_rows, num_blocks)]  likewise, dense
FLASHINFER_API void SwizzleBlockScales(const TensorView& linear, const TensorView& swizzled,
                                       ScaleLayout layout = ScaleLayout::k128x4,
                                       Backend backend = Backend(), Stream stream = {});

struct QuantizeBlocksOptions {
  ScaleLayout scale_layout = ScaleLayout::k128x4;
  float global_scale = 1.0f;  ///< NVFP4 only: (448 · 6) / the largest |x| of the tensor
  /// [1] f32 on the device of x, in place of `global_scale`.
  TensorView global_scale_tensor = TensorView();
  Backend backend = Backend();
};

/// Quantises blocks of a row that share a narrow scale (OCP Microscaling Formats 1.0, 2023, and
/// NVIDIA's NVFP4). The dtypes of `q` and `block_scales` tell the format:
///
///   format  q                                   block_scales                             block
///   MXFP8   [num_rows, padded_size] e4m3, e5m2  e8m0: 2^ceil(log2(amax / 448 or 57344))     32
///   MXFP4   [num_rows, padded_size / 2] e2m1x2  e8m0: 2^ceil(log2(amax / 6))                32
///   NVFP4   [num_rows, padded_size / 2] e2m1x2  e4m3: global_scale · amax / 6               16
///
///   x             [num_rows, hidden_size]  f32, f16, bf16
///   block_scales  [BlockScaleBytes(scale_layout, num_rows, padded_size / block)]   dense
///
/// `padded_size` is a multiple of the block, at least hidden_size; what is beyond it counts as 0.
/// amax is the largest finite |x| of the block. q = x / scale (NVFP4: x · global_scale / scale),
/// rounded to nearest even and saturated; a block whose scale is 0 holds zeros. NaN stays NaN in
/// MXFP8; in the 4-bit formats, which have none, it makes the block's scale NaN.
FLASHINFER_API void QuantizeBlocks(const TensorView& x, const TensorView& q,
                                   const TensorView& block_scales,
                                   const QuantizeBlocksOptions& options = {}, Stream stream = {});

/// out = q · scale (NVFP4: q · scale / global_scale); shapes as in QuantizeBlocks(), `out` as x.
FLASHINFER_API void DequantizeBlocks(const TensorView& q, const TensorView& block_scales,
                                     const TensorView& out,
                                     const QuantizeBlocksOptions& options = {}, Stream stream = {});

}  // namespace flashinfer
