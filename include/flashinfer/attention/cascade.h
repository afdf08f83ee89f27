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

/// Merges the state v_other, s_other into v, s; shapes and dtypes as in MergeState().
///
///   mask  [num_tokens]  bool: tokens with `false` keep their state; undefined view: all merge
FLASHINFER_API void MergeStateInPlace(const TensorView& v, const TensorView& s,
                                      const TensorView& v_other, const TensorView& s_other,
                                      const TensorView& mask = TensorView(),
                                      Backend backend = Backend(), Stream stream = {});

/// Merges as many states of each token, in their order; no state at all gives 0, -inf.
///
///   v         [num_tokens, num_states, num_qo_heads, head_dim]  f32, f16, bf16
///   s         [num_tokens, num_states, num_qo_heads]            f32, base-2 logarithms
///   v_merged  [num_tokens, num_qo_heads, head_dim]              as v
///   s_merged  [num_tokens, num_qo_heads]                        f32
///
/// Outputs may be one of the states: v_merged the same memory as v[:, i], s_merged as s[:, i].
FLASHINFER_API void MergeStates(const TensorView& v, const TensorView& s,
                                const TensorView& v_merged, const TensorView& s_merged,
                                Backend backend = Backend(), Stream stream = {});

/// MergeStates() where each token has its own number of states: token t has those from indptr[t]
/// to indptr[t + 1].
///
///   v         [num_states, num_qo_heads, head_dim]  f32, f16, bf16
///   s         [num_states, num_qo_heads]            f32, base-2 logarithms
///   indptr    [num_tokens + 1]  i32, non-decreasing, first 0, at most num_states
///   v_merged  [num_tokens, num_qo_heads, head_dim]  as v; must not overlap v
///   s_merged  [num_tokens, num_qo_heads]            f32; must not overlap s
FLASHINFER_API void VariableLengthMergeStates(const TensorView& v, const TensorView& s,
                                              const TensorView& indptr, const TensorView& v_merged,
                                              const TensorView& s_merged,
                                              Backend backend = Backend(), Stream stream = {});

}  // namespace flashinfer
