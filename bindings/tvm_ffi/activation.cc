// SPDX-License-Identifier: Apache-2.0
// include/flashinfer/activation.h for other languages; leading dimensions are taken as one.
#include "flashinfer/activation.h"

#include "bindings/tvm_ffi/call.h"

namespace flashinfer::bindings {
namespace {

void SiluAndMul(const TensorView& x, const TensorView& out) {
  flashinfer::SiluAndMul(AsRows("input", x, 1), AsRows("out", out, 1), {}, StreamOf(x));
}

void GeluAndMul(const TensorView& x, const TensorView& out) {
  flashinfer::GeluAndMul(AsRows("input", x, 1), AsRows("out", out, 1), {}, StreamOf(x));
}

void GeluTanhAndMul(const TensorView& x, const TensorView& out) {
  flashinfer::GeluTanhAndMul(AsRows("input", x, 1), AsRows("out", out, 1), {}, StreamOf(x));
}

}  // namespace
}  // namespace flashinfer::bindings

FLASHINFER_EXPORT(silu_and_mul, flashinfer::bindings::SiluAndMul)
FLASHINFER_EXPORT(gelu_and_mul, flashinfer::bindings::GeluAndMul)
FLASHINFER_EXPORT(gelu_tanh_and_mul, flashinfer::bindings::GeluTanhAndMul)
