// SPDX-License-Identifier: Apache-2.0
// Gated activations.
#pragma once

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

struct ActivationOptions {
  float out_scale = 1.0f;  ///< fp8 outputs only: what the reader multiplies by
  /// [1] f32 on the device of x, in place of `out_scale`.
  TensorView out_scale_tensor = TensorView();
  Backend backend = Backend();
};

/// out = silu(x[:, :size]) · x[:, size:], with silu(z) = z / (1 + e^-z) (Shazeer, GLU Variants,
/// 2020), computed in float32.
///
///   x    [num_tokens, 2 * size]  f32, f16, bf16
///   out  [num_tokens, size]      the dtype of x, and then it may be the first half of x itself;
///                                or e4m3, e5m2
///
/// An fp8 output holds the result divided by `out_scale`, rounded to nearest even and saturated.
FLASHINFER_API void SiluAndMul(const TensorView& x, const TensorView& out,
                               const ActivationOptions& options = {}, Stream stream = {});

/// As SiluAndMul() with gelu(z) = z · Φ(z), Φ the normal distribution's (Hendrycks and Gimpel,
/// 2016).
FLASHINFER_API void GeluAndMul(const TensorView& x, const TensorView& out,
                               const ActivationOptions& options = {}, Stream stream = {});

/// As GeluAndMul() with Φ(z) taken as (1 + tanh(√(2/π) · (z + 0.044715 z³))) / 2.
FLASHINFER_API void GeluTanhAndMul(const TensorView& x, const TensorView& out,
                                   const ActivationOptions& options = {}, Stream stream = {});

}  // namespace flashinfer
