// SPDX-License-Identifier: Apache-2.0
// Gated activations: check, choose, run.
#include "ops/activation.h"

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

template <class Op>
void Activate(const TensorView& x, const TensorView& out, Backend backend) {
  if (LogLevel() > 0) [[unlikely]]
    LogCall(Op::kName, {{"x", x}, {"out", out}});
  CheckTensor("x", x).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2).LastDimDense();
  FLASHINFER_CHECK(x.shape(1) % 2 == 0, "x: last dimension is {}, expected an even size",
                   x.shape(1));
  const int64_t size = x.shape(1) / 2;
  CheckTensor("out", out).On(x.device()).Is(x.dtype()).Shape({x.shape(0), size}).LastDimDense();
  CheckTensor("out", out).NoOverlap();
  const auto& run = Choose<Op>({x.dtype(), size}, backend);
  run({.x = x.data(),
       .out = out.data(),
       .num_tokens = x.shape(0),
       .size = size,
       .x_stride = x.stride(0),
       .out_stride = out.stride(0),
       .dtype = x.dtype()});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn(Op::kName, {{"out", out}});
}

}  // namespace

void SiluAndMul(const TensorView& x, const TensorView& out, Backend backend, Stream) {
  Activate<SiluAndMulOp>(x, out, backend);
}

}  // namespace flashinfer
