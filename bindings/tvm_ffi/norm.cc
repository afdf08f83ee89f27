// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/norm.h for other languages.
#include "flashinfer/norm.h"

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

NormOptions Options(double eps) { return {.eps = static_cast<float>(eps)}; }

/// `scale_tensor`, where defined, takes the place of `scale`.
NormOptions Options(double eps, double scale, const TensorView& scale_tensor) {
  return {.eps = static_cast<float>(eps),
          .out_scale = static_cast<float>(scale),
          .out_scale_tensor = AsOneElement("scale", scale_tensor)};
}

void RmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out, double eps) {
  flashinfer::RmsNorm(x, weight, out, Options(eps), StreamOf(x));
}

void RmsNormQuant(const TensorView& out, const TensorView& x, const TensorView& weight,
                  double scale, const TensorView& scale_tensor, double eps) {
  flashinfer::RmsNorm(x, weight, out, Options(eps, scale, scale_tensor), StreamOf(x));
}

void GemmaRmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out,
                  double eps) {
  flashinfer::GemmaRmsNorm(x, weight, out, Options(eps), StreamOf(x));
}

void FusedAddRmsNorm(const TensorView& x, const TensorView& residual, const TensorView& weight,
                     double eps) {
  flashinfer::FusedAddRmsNorm(x, residual, weight, x, Options(eps), StreamOf(x));
}

void FusedAddRmsNormQuant(const TensorView& out, const TensorView& x, const TensorView& residual,
                          const TensorView& weight, double scale, const TensorView& scale_tensor,
                          double eps) {
  flashinfer::FusedAddRmsNorm(x, residual, weight, out, Options(eps, scale, scale_tensor),
                              StreamOf(x));
}

void GemmaFusedAddRmsNorm(const TensorView& x, const TensorView& residual, const TensorView& weight,
                          double eps) {
  flashinfer::GemmaFusedAddRmsNorm(x, residual, weight, x, Options(eps), StreamOf(x));
}

void LayerNorm(const TensorView& x, const TensorView& weight, const TensorView& bias,
               const TensorView& out, double eps) {
  flashinfer::LayerNorm(x, weight, bias, out, Options(eps), StreamOf(x));
}

void LayerNormQuant(const TensorView& out, const TensorView& x, const TensorView& weight,
                    const TensorView& bias, double scale, const TensorView& scale_tensor,
                    double eps) {
  flashinfer::LayerNorm(x, weight, bias, out, Options(eps, scale, scale_tensor), StreamOf(x));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(rmsnorm, flashinfer::bindings::RmsNorm)
FLASHINFER_EXPORT(rmsnorm_quant, flashinfer::bindings::RmsNormQuant)
FLASHINFER_EXPORT(gemma_rmsnorm, flashinfer::bindings::GemmaRmsNorm)
FLASHINFER_EXPORT(fused_add_rmsnorm, flashinfer::bindings::FusedAddRmsNorm)
FLASHINFER_EXPORT(fused_add_rmsnorm_quant, flashinfer::bindings::FusedAddRmsNormQuant)
FLASHINFER_EXPORT(gemma_fused_add_rmsnorm, flashinfer::bindings::GemmaFusedAddRmsNorm)
FLASHINFER_EXPORT(layernorm, flashinfer::bindings::LayerNorm)
FLASHINFER_EXPORT(layernorm_quant, flashinfer::bindings::LayerNormQuant)
