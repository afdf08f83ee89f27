// SPDX-License-Identifier: Apache-2.0
// Normalisation over the last dimension.
#pragma once

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

struct RmsNormOptions {
  float eps = 1e-6f;
  Backend backend = Backend();
};

/// Root mean square norm (Zhang and Sennrich, 2019): out = x / sqrt(mean(x²) + eps) · weight,
/// computed in float32.
///
///   x       [num_rows, hidden_size] or [num_tokens, num_heads, hidden_size]   f32, f16, bf16
///   weight  [hidden_size]                                    the dtype of x, or f32
///   out     as x; may be x itself
///
/// The last dimension is dense; the others have any strides. Throws kInvalidArgument before
/// anything is written.
FLASHINFER_API void RmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out,
                            const RmsNormOptions& options = {}, Stream stream = {});

}  // namespace flashinfer
