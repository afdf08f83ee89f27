// SPDX-License-Identifier: Apache-2.0
// Gated activations: check, choose, run.
#include "ops/activation.h"

#include <array>

#include "core/check.h"
#include "core/log.h"
#include "core/name_table.h"
#include "core/overlap.h"
#include "core/text.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

constexpr NameTable<ActivationKind, 3> kKinds{{"silu", "gelu", "gelu_tanh"}};
constexpr std::array<std::string_view, 3> kFunctionNames{"silu_and_mul", "gelu_and_mul",
                                                         "gelu_tanh_and_mul"};

/// The columns that are activated, or those that they are multiplied with.
TensorView HalfOf(const TensorView& x, int half) {
  const int64_t size = x.shape(1) / 2;
  return {x.data_as<char>() + half * size * SizeBytes(x.dtype()),
          x.dtype(),
          {x.shape(0), size},
          x.strides(),
          x.device()};
}

void Check(const TensorView& x, const TensorView& out, const ActivationOptions& options) {
  CheckTensor("x", x).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).Rank(2).LastDimDense();
  FLASHINFER_CHECK(x.shape(1) % 2 == 0, "x: last dimension is {}, expected an even size",
                   x.shape(1));
  CheckTensor("out", out)
      .On(x.device())
      .IsOneOf({x.dtype(), DType::kE4M3, DType::kE5M2})
      .Shape({x.shape(0), x.shape(1) / 2})
      .LastDimDense()
      .NoOverlap();
  // In place of either half works: each element is read before it is written.
  if (!IsSameView(out, HalfOf(x, 0)) && !IsSameView(out, HalfOf(x, 1))) {
    CheckTensor("out", out).Apart("x", x);
  }
  FLASHINFER_CHECK(options.out_scale > 0, "out_scale: is {}, expected more than 0",
                   options.out_scale);
  if (options.out_scale_tensor.defined()) {
    CheckTensor("out_scale_tensor", options.out_scale_tensor)
        .On(x.device())
        .Is(DType::kF32)
        .Shape({1});
  }
}

void Activate(ActivationKind kind, const TensorView& x, const TensorView& out,
              const ActivationOptions& options, Stream stream) {
  const std::string_view function = kFunctionNames[static_cast<size_t>(kind)];
  if (LogLevel() > 0) [[unlikely]] {
    LogCall(function, {{"x", x},
                       {"out", out},
                       {"out_scale", ValueText(options.out_scale)},
                       {"out_scale_tensor", options.out_scale_tensor}});
  }
  Check(x, out, options);
  const int64_t size = x.shape(1) / 2;
  const bool is_fp8 = out.dtype() != x.dtype();
  const auto& run = Choose<ActivationOp>({.kind = kind,
                                          .dtype = x.dtype(),
                                          .dtype_out = out.dtype(),
                                          .size = size,
                                          .arch = cuda::ArchOf(x.device())},
                                         options.backend);
  run({.x = x.data(),
       .out = out.data(),
       .num_tokens = x.shape(0),
       .size = size,
       .x_stride = x.stride(0),
       .out_stride = out.stride(0),
       .out_scale = is_fp8 ? options.out_scale : 1.0f,
       .out_scale_data = is_fp8 ? options.out_scale_tensor.data_as<const float>() : nullptr,
       .kind = kind,
       .dtype = x.dtype(),
       .dtype_out = out.dtype(),
       .stream = cuda::StreamOn(x.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn(function, {{"out", out}});
}

}  // namespace

std::string ValueText(ActivationKind value) { return std::string(kKinds[value]); }
void ParseValue(std::string_view field, std::string_view text, ActivationKind& value) {
  kKinds.Parse(field, text, value);
}

void SiluAndMul(const TensorView& x, const TensorView& out, const ActivationOptions& options,
                Stream stream) {
  Activate(ActivationKind::kSilu, x, out, options, stream);
}

void GeluAndMul(const TensorView& x, const TensorView& out, const ActivationOptions& options,
                Stream stream) {
  Activate(ActivationKind::kGelu, x, out, options, stream);
}

void GeluTanhAndMul(const TensorView& x, const TensorView& out, const ActivationOptions& options,
                    Stream stream) {
  Activate(ActivationKind::kGeluTanh, x, out, options, stream);
}

}  // namespace flashinfer
