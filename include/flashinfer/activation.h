// SPDX-License-Identifier: Apache-2.0
// Gated activations.
#pragma once

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// out = silu(x[:, :size]) · x[:, size:], with silu(z) = z / (1 + e^-z) (Shazeer, GLU Variants,
/// 2020), computed in float32.
///
///   x    [num_tokens, 2 * size]  f32, f16, bf16
///   out  [num_tokens, size]      the dtype of x; may be the first half of x itself
FLASHINFER_API void SiluAndMul(const TensorView& x, const TensorView& out,
                               Backend backend = Backend(), Stream stream = {});

}  // namespace flashinfer
