// SPDX-License-Identifier: Apache-2.0
// Normalisation over the last dimension, alone or after adding a residual.
#pragma once

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

// What holds for every function here:
//
//   x       [num_rows, hidden_size] or [num_tokens, num_heads, hidden_size]   f32, f16, bf16
//   weight  [hidden_size]   the dtype of x, or f32
//   out     as x: the dtype of x, and then it may be x itself; or e4m3, e5m2
//
// The last dimension is dense; the others have any strides. All is computed in float32. An fp8
// output holds the result divided by `out_scale`, rounded to nearest even and saturated. Everything
// is checked before anything is written; what is wrong throws kInvalidArgument.

struct NormOptions {
  float eps = 1e-6f;
  float out_scale = 1.0f;  ///< fp8 outputs only: what the reader multiplies by
  /// [1] f32 on the device of x, in place of `out_scale`.
  TensorView out_scale_tensor = TensorView();
  Backend backend = Backend();
};

/// Root mean square norm (Zhang and Sennrich, 2019): out = x / sqrt(mean(x²) + eps) · weight.
FLASHINFER_API void RmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out,
                            const NormOptions& options = {}, Stream stream = {});

/// As RmsNorm() with 1 + weight in place of weight.
FLASHINFER_API void GemmaRmsNorm(const TensorView& x, const TensorView& weight,
                                 const TensorView& out, const NormOptions& options = {},
                                 Stream stream = {});

/// residual += x, out = RmsNorm(residual). The norm takes the sum before it is rounded to the dtype
/// of `residual`.
///
///   residual  as x, of its dtype; read and written
FLASHINFER_API void FusedAddRmsNorm(const TensorView& x, const TensorView& residual,
                                    const TensorView& weight, const TensorView& out,
                                    const NormOptions& options = {}, Stream stream = {});

/// As FusedAddRmsNorm() with 1 + weight in place of weight.
FLASHINFER_API void GemmaFusedAddRmsNorm(const TensorView& x, const TensorView& residual,
                                         const TensorView& weight, const TensorView& out,
                                         const NormOptions& options = {}, Stream stream = {});

/// Layer norm (Ba et al., 2016): out = (x - mean(x)) / sqrt(var(x) + eps) · weight + bias, with the
/// variance of the whole row (divided by hidden_size).
///
///   bias  as weight, of its dtype
FLASHINFER_API void LayerNorm(const TensorView& x, const TensorView& weight, const TensorView& bias,
                              const TensorView& out, const NormOptions& options = {},
                              Stream stream = {});

}  // namespace flashinfer
