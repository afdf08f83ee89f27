// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales, and back: check, choose, run.
#include "ops/quantize_blocks.h"

#include "core/check.h"
#include "core/log.h"
#include "core/name_table.h"
#include "core/text.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

constexpr NameTable<BlockFormat, 4> kFormats{{"mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "nvfp4"}};
constexpr NameTable<ScaleLayout, 3> kLayouts{{"linear", "128x4", "8x4"}};

BlockFormat FormatOf(const TensorView& q, const TensorView& scales) {
  CheckTensor("q", q).IsOneOf({DType::kE4M3, DType::kE5M2, DType::kE2M1x2}).Rank(2).LastDimDense();
  if (q.dtype() == DType::kE2M1x2) {
    CheckTensor("block_scales", scales).IsOneOf({DType::kE8M0, DType::kE4M3});
    return scales.dtype() == DType::kE8M0 ? BlockFormat::kMxFp4 : BlockFormat::kNvFp4;
  }
  CheckTensor("block_scales", scales).Is(DType::kE8M0);
  return q.dtype() == DType::kE4M3 ? BlockFormat::kMxFp8E4M3 : BlockFormat::kMxFp8E5M2;
}

void CheckSizes(std::string_view x_name, const TensorView& x, const TensorView& q,
                const TensorView& scales, const QuantizeBlocksOptions& options) {
  const BlockFormat format = FormatOf(q, scales);
  CheckTensor(x_name, x).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2).LastDimDense();
  CheckTensor("q", q).On(x.device()).Shape({x.shape(0), -1});
  const int64_t padded_size = q.shape(1) * ElementsPerByte(format);
  const int64_t block = ElementsPerBlock(format);
  FLASHINFER_CHECK(padded_size >= x.shape(1) && padded_size % block == 0,
                   "q: holds {} elements a row, expected a multiple of {}, at least {}'s {}",
                   padded_size, block, x_name, x.shape(1));
  CheckTensor("block_scales", scales)
      .On(x.device())
      .Shape({BlockScaleBytes(options.scale_layout, x.shape(0), padded_size / block)})
      .LastDimDense();
  FLASHINFER_CHECK(options.global_scale > 0, "global_scale: is {}, expected more than 0",
                   options.global_scale);
  if (options.global_scale_tensor.defined()) {
    CheckTensor("global_scale_tensor", options.global_scale_tensor)
        .On(x.device())
        .Is(DType::kF32)
        .Shape({1});
  }
}

enum class Direction : uint8_t { kQuantize, kDequantize };

/// `x` are the floats, whatever the direction.
void Run(Direction direction, const TensorView& x, const TensorView& q, const TensorView& scales,
         const QuantizeBlocksOptions& options, Stream stream) {
  const BlockFormat format = FormatOf(q, scales);
  const bool inverse = direction == Direction::kDequantize;
  const bool is_nvfp4 = format == BlockFormat::kNvFp4;
  const int64_t padded_size = q.shape(1) * ElementsPerByte(format);
  const auto& run = Choose<QuantizeBlocksOp>({.format = format,
                                              .inverse = inverse,
                                              .dtype = x.dtype(),
                                              .scale_layout = options.scale_layout,
                                              .padded_size = padded_size,
                                              .arch = cuda::ArchOf(x.device())},
                                             options.backend);
  run({.x = x.data(),
       .q = q.data_as<uint8_t>(),
       .scales = scales.data_as<uint8_t>(),
       .num_rows = x.shape(0),
       .hidden_size = x.shape(1),
       .padded_size = padded_size,
       .x_stride = x.stride(0),
       .q_stride = q.stride(0),
       .global_scale = is_nvfp4 ? options.global_scale : 1.0f,
       .global_scale_data = is_nvfp4 ? options.global_scale_tensor.data_as<const float>() : nullptr,
       .format = format,
       .scale_layout = options.scale_layout,
       .dtype = x.dtype(),
       .inverse = inverse,
       .stream = cuda::StreamOn(x.device(), stream)});
}

}  // namespace

std::string ValueText(BlockFormat value) { return std::string(kFormats[value]); }
void ParseValue(std::string_view field, std::string_view text, BlockFormat& value) {
  kFormats.Parse(field, text, value);
}
std::string_view Name(ScaleLayout layout) { return kLayouts[layout]; }
std::string ValueText(ScaleLayout value) { return std::string(Name(value)); }
void ParseValue(std::string_view field, std::string_view text, ScaleLayout& value) {
  kLayouts.Parse(field, text, value);
}

int64_t BlockScaleBytes(ScaleLayout layout, int64_t num_rows, int64_t num_blocks) {
  FLASHINFER_CHECK(num_rows >= 0 && num_blocks >= 0,
                   "num_rows and num_blocks: are {} and {}, expected 0 or more", num_rows,
                   num_blocks);
  return PaddedScaleRows(layout, num_rows) * PaddedScaleBlocks(layout, num_blocks);
}

void QuantizeBlocks(const TensorView& x, const TensorView& q, const TensorView& block_scales,
                    const QuantizeBlocksOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("quantize_blocks", {{"x", x},
                                {"q", q},
                                {"block_scales", block_scales},
                                {"scale_layout", ValueText(options.scale_layout)},
                                {"global_scale", ValueText(options.global_scale)},
                                {"global_scale_tensor", options.global_scale_tensor}});
  }
  CheckSizes("x", x, q, block_scales, options);
  CheckTensor("q", q).NoOverlap().Apart("x", x).Apart("block_scales", block_scales);
  CheckTensor("block_scales", block_scales).Apart("x", x);
  Run(Direction::kQuantize, x, q, block_scales, options, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("quantize_blocks", {{"q", q}, {"block_scales", block_scales}});
}

void DequantizeBlocks(const TensorView& q, const TensorView& block_scales, const TensorView& out,
                      const QuantizeBlocksOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("dequantize_blocks", {{"q", q},
                                  {"block_scales", block_scales},
                                  {"out", out},
                                  {"scale_layout", ValueText(options.scale_layout)},
                                  {"global_scale", ValueText(options.global_scale)},
                                  {"global_scale_tensor", options.global_scale_tensor}});
  }
  CheckSizes("out", out, q, block_scales, options);
  CheckTensor("out", out).NoOverlap().Apart("q", q).Apart("block_scales", block_scales);
  Run(Direction::kDequantize, out, q, block_scales, options, stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("dequantize_blocks", {{"out", out}});
}

}  // namespace flashinfer
