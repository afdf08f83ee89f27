// SPDX-License-Identifier: Apache-2.0
// RMSNorm: check, choose, run.
#include "ops/rmsnorm.h"

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

void Check(const TensorView& x, const TensorView& weight, const TensorView& out, float eps) {
  CheckTensor("x", x).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).LastDimDense();
  FLASHINFER_CHECK(x.rank() == 2 || x.rank() == 3, "x: shape is {}, expected 2 or 3 dimensions",
                   Text(x.shape()));
  const int64_t hidden_size = x.shape(x.rank() - 1);
  FLASHINFER_CHECK(hidden_size > 0, "x: hidden_size is 0, expected 1 or more");
  CheckTensor("weight", weight)
      .On(x.device())
      .IsOneOf({x.dtype(), DType::kF32})
      .Shape({hidden_size})
      .LastDimDense();
  CheckTensor("out", out).On(x.device()).Is(x.dtype()).Shape(x.shape()).LastDimDense().NoOverlap();
  FLASHINFER_CHECK(eps >= 0, "eps: is {}, expected 0 or more", eps);
}

}  // namespace

void RmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out,
             const RmsNormOptions& options, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("rmsnorm",
            {{"x", x}, {"weight", weight}, {"out", out}, {"eps", ValueText(options.eps)}});
  }
  Check(x, weight, out, options.eps);
  const bool has_inner = x.rank() == 3;
  const int64_t hidden_size = x.shape(x.rank() - 1);
  const auto& run = Choose<RmsNormOp>({x.dtype(), weight.dtype(), hidden_size}, options.backend);
  run({.x = x.data(),
       .weight = weight.data(),
       .out = out.data(),
       .num_outer = x.shape(0),
       .num_inner = has_inner ? x.shape(1) : 1,
       .hidden_size = hidden_size,
       .x_stride_outer = x.stride(0),
       .x_stride_inner = has_inner ? x.stride(1) : 0,
       .out_stride_outer = out.stride(0),
       .out_stride_inner = has_inner ? out.stride(1) : 0,
       .eps = options.eps,
       .dtype = x.dtype(),
       .dtype_weight = weight.dtype()});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("rmsnorm", {{"out", out}});
}

}  // namespace flashinfer
