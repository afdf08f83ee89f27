// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/quantize.h for other languages. Scales and fp4 pairs may be kept as u8: the
// format is named.
#include "flashinfer/quantize.h"

#include <string>

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

BitOrder OrderOf(bool is_little) { return is_little ? BitOrder::kLittle : BitOrder::kBig; }

void PackBits(const TensorView& x, const TensorView& packed, bool is_little) {
  flashinfer::PackBits(x, packed, OrderOf(is_little), Backend(), StreamOf(x));
}

int64_t SegmentPackBitsBytes(const TensorView& indptr) {
  return flashinfer::SegmentPackBitsBytes(indptr);
}

void SegmentPackBits(const TensorView& x, const TensorView& indptr, const TensorView& packed,
                     const TensorView& packed_indptr, bool is_little) {
  flashinfer::SegmentPackBits(x, {indptr, packed_indptr}, packed, OrderOf(is_little), Backend(),
                              StreamOf(x));
}

void Quantize(const TensorView& x, const TensorView& q, const TensorView& scales, bool dynamic,
              double min_scale, bool power_of_two) {
  flashinfer::Quantize(x, q, scales,
                       {.dynamic = dynamic,
                        .min_scale = static_cast<float>(min_scale),
                        .power_of_two = power_of_two},
                       StreamOf(x));
}

void Dequantize(const TensorView& q, const TensorView& scales, const TensorView& out) {
  flashinfer::Dequantize(q, scales, out, Backend(), StreamOf(q));
}

/// Formats of blocks: the dtype of their values and of their scales.
struct BlockFormat {
  DType values;
  DType scales;
};

BlockFormat FormatNamed(std::string_view name) {
  if (name == "mxfp8_e4m3") return {DType::kE4M3, DType::kE8M0};
  if (name == "mxfp8_e5m2") return {DType::kE5M2, DType::kE8M0};
  if (name == "mxfp4") return {DType::kE2M1x2, DType::kE8M0};
  if (name == "nvfp4") return {DType::kE2M1x2, DType::kE4M3};
  throw Error(ErrorKind::kInvalidArgument, "format: is " + std::string(name) +
                                               ", accepted: mxfp8_e4m3, mxfp8_e5m2, mxfp4, nvfp4");
}

/// As flashinfer.SfLayout numbers them.
ScaleLayout LayoutOf(int64_t number) {
  switch (number) {
    case 0:
      return ScaleLayout::k128x4;
    case 1:
      return ScaleLayout::k8x4;
    case 2:
      return ScaleLayout::kLinear;
    default:
      throw Error(ErrorKind::kInvalidArgument,
                  "layout: is " + std::to_string(number) + ", accepted: 0 to 2 of SfLayout");
  }
}

int64_t BlockScaleBytes(int64_t layout, int64_t num_rows, int64_t num_blocks) {
  return flashinfer::BlockScaleBytes(LayoutOf(layout), num_rows, num_blocks);
}

/// `scale_tensor`, where defined, takes the place of `scale`.
QuantizeBlocksOptions Options(int64_t layout, double scale, const TensorView& scale_tensor) {
  return {.scale_layout = LayoutOf(layout),
          .global_scale = static_cast<float>(scale),
          .global_scale_tensor = AsOneElement("global_scale", scale_tensor)};
}

void QuantizeBlocks(const TensorView& x, const TensorView& q, const TensorView& block_scales,
                    const tvm::ffi::String& format, int64_t layout, double global_scale,
                    const TensorView& global_scale_tensor) {
  const BlockFormat f = FormatNamed(std::string_view(format.data(), format.size()));
  flashinfer::QuantizeBlocks(AsRows("input", x, 1), AsRows("q", As(q, f.values), 1),
                             As(block_scales, f.scales),
                             Options(layout, global_scale, global_scale_tensor), StreamOf(x));
}

void DequantizeBlocks(const TensorView& q, const TensorView& block_scales, const TensorView& out,
                      const tvm::ffi::String& format, int64_t layout, double global_scale,
                      const TensorView& global_scale_tensor) {
  const BlockFormat f = FormatNamed(std::string_view(format.data(), format.size()));
  flashinfer::DequantizeBlocks(AsRows("q", As(q, f.values), 1), As(block_scales, f.scales),
                               AsRows("out", out, 1),
                               Options(layout, global_scale, global_scale_tensor), StreamOf(q));
}

void SwizzleBlockScales(const TensorView& linear, const TensorView& swizzled, int64_t layout) {
  flashinfer::SwizzleBlockScales(linear, swizzled, LayoutOf(layout), Backend(), StreamOf(linear));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(packbits, flashinfer::bindings::PackBits)
FLASHINFER_EXPORT(segment_packbits_bytes, flashinfer::bindings::SegmentPackBitsBytes)
FLASHINFER_EXPORT(segment_packbits, flashinfer::bindings::SegmentPackBits)
FLASHINFER_EXPORT(quantize, flashinfer::bindings::Quantize)
FLASHINFER_EXPORT(dequantize, flashinfer::bindings::Dequantize)
FLASHINFER_EXPORT(block_scale_bytes, flashinfer::bindings::BlockScaleBytes)
FLASHINFER_EXPORT(quantize_blocks, flashinfer::bindings::QuantizeBlocks)
FLASHINFER_EXPORT(dequantize_blocks, flashinfer::bindings::DequantizeBlocks)
FLASHINFER_EXPORT(swizzle_block_scales, flashinfer::bindings::SwizzleBlockScales)
