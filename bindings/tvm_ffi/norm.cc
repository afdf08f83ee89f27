// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/norm.h for other languages.
#include "flashinfer/norm.h"

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

NormOptions Options(double eps) { return {.eps = static_cast<float>(eps)}; }

void RmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out, double eps) {
  flashinfer::RmsNorm(x, weight, out, Options(eps), StreamOf(x));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(rmsnorm, flashinfer::bindings::RmsNorm)
