// SPDX-License-Identifier: Apache-2.0
// Quantisation to 8 bits and back: check, choose, run.
#include "ops/quantize.h"

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

void CheckScales(const TensorView& scales, const TensorView& rows) {
  CheckTensor("scales", scales).On(rows.device()).Is(DType::kF32);
  if (scales.rank() == 1) {
    CheckTensor("scales", scales).Shape({1});
    return;
  }
  CheckTensor("scales", scales).Shape({rows.shape(0), -1}).NoOverlap();
  const int64_t num_groups = scales.shape(1);
  FLASHINFER_CHECK(num_groups > 0 && rows.shape(1) % num_groups == 0,
                   "scales: has {} groups a row, accepted: 1 or more that divide hidden_size {}",
                   num_groups, rows.shape(1));
}

/// `x` are the floats, whatever the direction.
QuantizeParams ParamsOf(const TensorView& x, const TensorView& q, const TensorView& scales,
                        Stream stream) {
  const bool per_tensor = scales.rank() == 1;
  return {.x = x.data(),
          .q = q.data(),
          .scales = scales.data_as<float>(),
          .num_rows = x.shape(0),
          .hidden_size = x.shape(1),
          .x_stride = x.stride(0),
          .q_stride = q.stride(0),
          .scales_stride_row = per_tensor ? 0 : scales.stride(0),
          .scales_stride_group = per_tensor ? 0 : scales.stride(1),
          .group_size = per_tensor ? 0 : x.shape(1) / scales.shape(1),
          .min_scale = 0,
          .inverse = false,
          .dynamic = false,
          .power_of_two = false,
          .dtype = x.dtype(),
          .dtype_q = q.dtype(),
          .stream = cuda::StreamOn(x.device(), stream)};
}

void Run(const QuantizeParams& params, Device device, Backend backend) {
  const auto& run = Choose<QuantizeOp>({.inverse = params.inverse,
                                        .dtype = params.dtype,
                                        .dtype_q = params.dtype_q,
                                        .dynamic = params.dynamic,
                                        .group_size = params.group_size,
                                        .arch = cuda::ArchOf(device)},
                                       backend);
  run(params);
}

}  // namespace

void Quantize(const TensorView& x, const TensorView& q, const TensorView& scales,
              const QuantizeOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("quantize", {{"x", x},
                         {"q", q},
                         {"scales", scales},
                         {"dynamic", ValueText(options.dynamic)},
                         {"min_scale", ValueText(options.min_scale)},
                         {"power_of_two", ValueText(options.power_of_two)}});
  }
  CheckTensor("x", x).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2).LastDimDense();
  CheckTensor("q", q)
      .On(x.device())
      .IsOneOf({DType::kE4M3, DType::kE5M2, DType::kI8})
      .Shape(x.shape())
      .LastDimDense()
      .NoOverlap();
  CheckScales(scales, x);
  CheckTensor("q", q).Apart("x", x).Apart("scales", scales);
  CheckTensor("scales", scales).Apart("x", x);
  FLASHINFER_CHECK(options.min_scale > 0, "min_scale: is {}, expected more than 0",
                   options.min_scale);
  QuantizeParams params = ParamsOf(x, q, scales, stream);
  params.min_scale = options.min_scale;
  params.dynamic = options.dynamic;
  params.power_of_two = options.power_of_two;
  Run(params, x.device(), options.backend);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("quantize", {{"q", q}, {"scales", scales}});
}

void Dequantize(const TensorView& q, const TensorView& scales, const TensorView& out,
                Backend backend, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    LogCall("dequantize", {{"q", q}, {"scales", scales}, {"out", out}});
  CheckTensor("q", q).IsOneOf({DType::kE4M3, DType::kE5M2, DType::kI8}).Rank(2).LastDimDense();
  CheckTensor("out", out)
      .On(q.device())
      .IsOneOf({DType::kF32, DType::kF16, DType::kBF16})
      .Shape(q.shape())
      .LastDimDense()
      .NoOverlap();
  CheckScales(scales, q);
  CheckTensor("out", out).Apart("q", q).Apart("scales", scales);
  QuantizeParams params = ParamsOf(out, q, scales, stream);
  params.inverse = true;
  Run(params, q.device(), backend);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("dequantize", {{"out", out}});
}

}  // namespace flashinfer
