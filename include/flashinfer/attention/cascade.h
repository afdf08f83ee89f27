// SPDX-License-Identifier: Apache-2.0
// Merging attention states that were computed over disjoint sets of keys.
#pragma once

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Merges two attention states (Ye et al., Cascade Inference, 2024): v = Σ 2^(s_i - s) v_i with
/// s = log2 Σ 2^s_i. A state with s_i = -inf is neutral, whatever its v; two of them give 0, -inf.
///
///   v_a, v_b, v_merged  [num_tokens, num_qo_heads, head_dim]  f32, f16, bf16, one dtype
///   s_a, s_b, s_merged  [num_tokens, num_qo_heads]            f32, base-2 logarithms
///
/// Outputs may be inputs.
FLASHINFER_API void MergeState(const TensorView& v_a, const TensorView& s_a, const TensorView& v_b,
                               const TensorView& s_b, const TensorView& v_merged,
                               const TensorView& s_merged, Backend backend = Backend(),
                               Stream stream = {});

}  // namespace flashinfer
