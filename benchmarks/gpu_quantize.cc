// SPDX-License-Identifier: Apache-2.0
// Quantisation and layouts of scales on a CUDA device.
#include "gpu_quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "flashinfer/quantize.h"
#include "gpu_tensor.h"

namespace flashinfer::bench {
namespace {

constexpr std::array<const char*, 5> kOps{"quantize", "dequantize", "quantize_blocks",
                                          "dequantize_blocks", "swizzle_block_scales"};

/// A part of a tensor's memory as another type.
TensorView As(const TensorView& memory, DType dtype, const Dims& shape) {
  return {memory.data(), dtype, shape, memory.device()};
}

struct Tensors {
  TensorView x;
  TensorView q;       ///< memory for codes
  TensorView scales;  ///< memory for scales
};

void MeasureGroups(const MeasureFunction& measure, const Tensors& t, const std::string& text) {
  const double elements = static_cast<double>(t.x.num_elements());
  const int64_t num_rows = t.x.shape(0);
  for (int64_t group_size : {int64_t{128}, t.x.shape(1)}) {
    const TensorView q = As(t.q, DType::kE4M3, t.x.shape());
    const TensorView scales = As(t.scales, DType::kF32, {num_rows, t.x.shape(1) / group_size});
    const double bytes = 3 * elements + 4 * elements / static_cast<double>(group_size);
    const std::string name = fmt::format("{} e4m3, groups of {}", text, group_size);
    measure("quantize", name, bytes, [&](Stream s) { Quantize(t.x, q, scales, {}, s); });
    measure("dequantize", name, bytes, [&](Stream s) { Dequantize(q, scales, t.x, {}, s); });
  }
}

void MeasureBlocks(const MeasureFunction& measure, const Tensors& t, const std::string& text) {
  const int64_t num_rows = t.x.shape(0);
  for (const auto& [name, dtype_q, dtype_scale, block] :
       {std::tuple{"mxfp8_e4m3", DType::kE4M3, DType::kE8M0, 32},
        {"mxfp4", DType::kE2M1x2, DType::kE8M0, 32},
        {"nvfp4", DType::kE2M1x2, DType::kE4M3, 16}}) {
    for (ScaleLayout layout : {ScaleLayout::k128x4, ScaleLayout::kLinear}) {
      const int64_t row_bytes = t.x.shape(1) / (dtype_q == DType::kE2M1x2 ? 2 : 1);
      const int64_t num_blocks = t.x.shape(1) / block;
      const int64_t scale_bytes = BlockScaleBytes(layout, num_rows, num_blocks);
      const TensorView q = As(t.q, dtype_q, {num_rows, row_bytes});
      const TensorView scales = As(t.scales, dtype_scale, {scale_bytes});
      const double bytes =
          static_cast<double>(2 * t.x.num_elements() + num_rows * row_bytes + scale_bytes);
      const QuantizeBlocksOptions options{.scale_layout = layout, .global_scale = 400};
      const std::string full_name = fmt::format("{} {} {}", text, name, Name(layout));
      measure("quantize_blocks", full_name, bytes,
              [&](Stream s) { QuantizeBlocks(t.x, q, scales, options, s); });
      measure("dequantize_blocks", full_name, bytes,
              [&](Stream s) { DequantizeBlocks(q, scales, t.x, options, s); });
    }
  }
}

void MeasureLayout(const MeasureFunction& measure, const Tensors& t, const std::string& text) {
  const int64_t num_rows = t.x.shape(0);
  const int64_t num_blocks = t.x.shape(1) / 16;
  const int64_t bytes = BlockScaleBytes(ScaleLayout::k128x4, num_rows, num_blocks);
  const TensorView linear = As(t.q, DType::kU8, {num_rows, num_blocks});
  const TensorView swizzled = As(t.scales, DType::kU8, {bytes});
  measure("swizzle_block_scales", text + " 128x4",
          static_cast<double>(num_rows * num_blocks + bytes),
          [&](Stream s) { SwizzleBlockScales(linear, swizzled, ScaleLayout::k128x4, {}, s); });
}

}  // namespace

void MeasureQuantize(const WantsFunction& wants, const MeasureFunction& measure, Device device,
                     int64_t num_rows, int64_t hidden_size) {
  if (std::none_of(kOps.begin(), kOps.end(), wants)) return;
  const GpuTensor x({num_rows, hidden_size}, device);
  const GpuTensor q({num_rows, hidden_size / 2}, device);
  const GpuTensor scales({std::max<int64_t>(num_rows, 128), hidden_size / 32}, device);
  const Tensors tensors{.x = x, .q = q, .scales = scales};
  const std::string text = fmt::format("{}x{}", num_rows, hidden_size);
  MeasureGroups(measure, tensors, text);
  MeasureBlocks(measure, tensors, text);
  MeasureLayout(measure, tensors, text);
}

}  // namespace flashinfer::bench
