// SPDX-License-Identifier: Apache-2.0
// Layouts of block scales: check, choose, run.
#include "ops/swizzle_scales.h"

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {

void SwizzleBlockScales(const TensorView& linear, const TensorView& swizzled, ScaleLayout layout,
                        Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("swizzle_block_scales",
            {{"linear", linear}, {"swizzled", swizzled}, {"scale_layout", ValueText(layout)}});
  }
  CheckTensor("linear", linear)
      .IsOneOf({DType::kE8M0, DType::kE4M3, DType::kU8})
      .Rank(2)
      .LastDimDense();
  CheckTensor("swizzled", swizzled)
      .On(linear.device())
      .Is(linear.dtype())
      .Shape({BlockScaleBytes(layout, linear.shape(0), linear.shape(1))})
      .LastDimDense()
      .Apart("linear", linear);
  const auto& run =
      Choose<SwizzleScalesOp>({.layout = layout, .arch = cuda::ArchOf(linear.device())}, backend);
  run({.linear = linear.data_as<const uint8_t>(),
       .swizzled = swizzled.data_as<uint8_t>(),
       .num_rows = linear.shape(0),
       .num_blocks = linear.shape(1),
       .linear_stride = linear.stride(0),
       .layout = layout,
       .stream = cuda::StreamOn(linear.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("swizzle_block_scales", {{"swizzled", swizzled}});
}

}  // namespace flashinfer
