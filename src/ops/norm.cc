// SPDX-License-Identifier: Apache-2.0
// The norms: check, choose, run.
#include "ops/norm.h"

#include "core/check.h"
#include "core/log.h"
#include "core/name_table.h"
#include "core/text.h"
#include "cuda/device.h"
#include "dispatch/choose.h"

namespace flashinfer {
namespace {

constexpr NameTable<NormKind, 3> kKinds{{"rms", "gemma", "layer"}};

const TensorView kNone;

/// The tensors of any norm.
struct Arguments {
  std::string_view function;  // in the API log
  NormKind kind;
  const TensorView& x;
  const TensorView& weight;
  const TensorView& out;
  bool adds_residual = false;
  const TensorView& residual = kNone;
  const TensorView& bias = kNone;
};

void CheckRows(std::string_view name, const TensorView& rows, const TensorView& x) {
  CheckTensor(name, rows).On(x.device()).Shape(x.shape()).LastDimDense().NoOverlap();
}

void CheckWeight(std::string_view name, const TensorView& weight, const TensorView& x) {
  CheckTensor(name, weight)
      .On(x.device())
      .IsOneOf({x.dtype(), DType::kF32})
      .Shape({x.shape(x.rank() - 1)})
      .LastDimDense();
}

void CheckBias(const Arguments& a) {
  CheckTensor("bias", a.bias).Is(a.weight.dtype());
  CheckWeight("bias", a.bias, a.x);
}

void CheckResidual(const Arguments& a) {
  CheckTensor("residual", a.residual).Is(a.x.dtype());
  CheckRows("residual", a.residual, a.x);
  CheckTensor("residual", a.residual).Apart("x", a.x).Apart("out", a.out).Apart("weight", a.weight);
}

void Check(const Arguments& a, const NormOptions& options) {
  const TensorView& x = a.x;
  CheckTensor("x", x).IsOneOf({DType::kF32, DType::kF16, DType::kBF16}).LastDimDense();
  FLASHINFER_CHECK(x.rank() == 2 || x.rank() == 3, "x: shape is {}, expected 2 or 3 dimensions",
                   Text(x.shape()));
  FLASHINFER_CHECK(x.shape(x.rank() - 1) > 0, "x: hidden_size is 0, expected 1 or more");
  CheckWeight("weight", a.weight, x);
  CheckTensor("out", a.out).IsOneOf({x.dtype(), DType::kE4M3, DType::kE5M2});
  CheckRows("out", a.out, x);
  CheckTensor("out", a.out).ApartOrSame("x", x).Apart("weight", a.weight).Apart("bias", a.bias);
  if (a.adds_residual) CheckResidual(a);
  if (a.kind == NormKind::kLayer) CheckBias(a);
  FLASHINFER_CHECK(options.eps >= 0, "eps: is {}, expected 0 or more", options.eps);
  FLASHINFER_CHECK(options.out_scale > 0, "out_scale: is {}, expected more than 0",
                   options.out_scale);
  if (options.out_scale_tensor.defined()) {
    CheckTensor("out_scale_tensor", options.out_scale_tensor)
        .On(x.device())
        .Is(DType::kF32)
        .Shape({1});
  }
}

NormRows RowsOf(const TensorView& rows) {
  if (!rows.defined()) return {};
  return {.data = rows.data(),
          .stride_outer = rows.stride(0),
          .stride_inner = rows.rank() == 3 ? rows.stride(1) : 0};
}

void Log(const Arguments& a, const NormOptions& options) {
  LogCall(a.function, {{"x", a.x},
                       {"residual", a.residual},
                       {"weight", a.weight},
                       {"bias", a.bias},
                       {"out", a.out},
                       {"eps", ValueText(options.eps)},
                       {"out_scale", ValueText(options.out_scale)},
                       {"out_scale_tensor", options.out_scale_tensor}});
}

void Norm(const Arguments& a, const NormOptions& options, Stream stream) {
  if (LogLevel() > 0) [[unlikely]]
    Log(a, options);
  Check(a, options);
  const TensorView& x = a.x;
  const bool is_fp8 = a.out.dtype() != x.dtype();
  const int64_t hidden_size = x.shape(x.rank() - 1);
  const auto& run = Choose<NormOp>({.kind = a.kind,
                                    .adds_residual = a.adds_residual,
                                    .dtype = x.dtype(),
                                    .dtype_weight = a.weight.dtype(),
                                    .dtype_out = a.out.dtype(),
                                    .hidden_size = hidden_size,
                                    .arch = cuda::ArchOf(x.device())},
                                   options.backend);
  run({.x = RowsOf(x),
       .residual = RowsOf(a.residual),
       .out = RowsOf(a.out),
       .weight = a.weight.data(),
       .bias = a.bias.data(),
       .num_outer = x.shape(0),
       .num_inner = x.rank() == 3 ? x.shape(1) : 1,
       .hidden_size = hidden_size,
       .eps = options.eps,
       .out_scale = is_fp8 ? options.out_scale : 1.0f,
       .out_scale_data = is_fp8 ? options.out_scale_tensor.data_as<const float>() : nullptr,
       .kind = a.kind,
       .dtype = x.dtype(),
       .dtype_weight = a.weight.dtype(),
       .dtype_out = a.out.dtype(),
       .stream = cuda::StreamOn(x.device(), stream)});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn(a.function, {{"residual", a.residual}, {"out", a.out}});
}

}  // namespace

std::string_view Name(NormKind kind) { return kKinds[kind]; }
std::string ValueText(NormKind value) { return std::string(Name(value)); }
void ParseValue(std::string_view field, std::string_view text, NormKind& value) {
  kKinds.Parse(field, text, value);
}

void RmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out,
             const NormOptions& options, Stream stream) {
  Norm({.function = "rmsnorm", .kind = NormKind::kRms, .x = x, .weight = weight, .out = out},
       options, stream);
}

void GemmaRmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out,
                  const NormOptions& options, Stream stream) {
  Norm(
      {.function = "gemma_rmsnorm", .kind = NormKind::kGemma, .x = x, .weight = weight, .out = out},
      options, stream);
}

void FusedAddRmsNorm(const TensorView& x, const TensorView& residual, const TensorView& weight,
                     const TensorView& out, const NormOptions& options, Stream stream) {
  Norm({.function = "fused_add_rmsnorm",
        .kind = NormKind::kRms,
        .x = x,
        .weight = weight,
        .out = out,
        .adds_residual = true,
        .residual = residual},
       options, stream);
}

void GemmaFusedAddRmsNorm(const TensorView& x, const TensorView& residual, const TensorView& weight,
                          const TensorView& out, const NormOptions& options, Stream stream) {
  Norm({.function = "gemma_fused_add_rmsnorm",
        .kind = NormKind::kGemma,
        .x = x,
        .weight = weight,
        .out = out,
        .adds_residual = true,
        .residual = residual},
       options, stream);
}

void LayerNorm(const TensorView& x, const TensorView& weight, const TensorView& bias,
               const TensorView& out, const NormOptions& options, Stream stream) {
  Norm({.function = "layernorm",
        .kind = NormKind::kLayer,
        .x = x,
        .weight = weight,
        .out = out,
        .bias = bias},
       options, stream);
}

}  // namespace flashinfer
