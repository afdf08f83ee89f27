// SPDX-License-Identifier: Apache-2.0
// Attention over shared prefixes, and merging states that were computed over disjoint sets of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/attention/problem.h"
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

/// Which of a batch's queries share keys, at one level of a cascade, and those keys.
///
///   qo_indptr  [num_groups + 1]  i32, host memory, non-decreasing, first 0: rows of q
///   pages      one "request" a group
struct CascadeLevel {
  TensorView qo_indptr;
  PageTable pages;
};

/// Attention of a batch whose requests begin with the same tokens (Ye et al., Cascade Inference,
/// 2024): each query attends to the keys of its group at every level, which are read once a group.
///
/// The first level may be one group of all queries over a system prompt, say, and the last level
/// one group a request. Plan/run as in BatchPrefill.
class FLASHINFER_API MultiLevelCascadeAttention {
 public:
  /// Takes scratch memory from `workspace`, which must outlive this object; runs on its device.
  explicit MultiLevelCascadeAttention(Workspace& workspace);
  MultiLevelCascadeAttention(MultiLevelCascadeAttention&&) noexcept;
  MultiLevelCascadeAttention& operator=(MultiLevelCascadeAttention&&) noexcept;
  ~MultiLevelCascadeAttention();

  /// Bytes of workspace that Plan() takes for up to `max_groups` groups a level and `max_tokens`
  /// query tokens.
  static size_t WorkspaceBytes(const AttentionProblem& problem, int64_t max_groups,
                               int64_t max_tokens, Backend backend = Backend());

  /// Fixes the batch for the Run() calls that follow. Levels have the same number of query tokens,
  /// and keys in the order of the levels.
  ///
  /// MaskMode::kCausal counts at the last level only: its keys end with those of the queries. What
  /// depends on positions or on the whole softmax cannot be split over levels: other masks,
  /// windows, position encodings, biases and sinks are refused. dtype_out is f32, f16 or bf16.
  void Plan(const AttentionProblem& problem, std::span<const CascadeLevel> levels,
            Backend backend = Backend(), Stream stream = {});

  ///   q    [num_tokens, num_qo_heads, head_dim_qk]
  ///   out  [num_tokens, num_qo_heads, head_dim_vo]
  ///   lse  [num_tokens, num_qo_heads]  f32, base-2 logarithm; undefined view when not wanted
  ///
  /// Of `extras`, the scales of quantised inputs are read.
  void Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
           const TensorView& lse = TensorView(), const AttentionExtras& extras = {},
           Stream stream = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashinfer
