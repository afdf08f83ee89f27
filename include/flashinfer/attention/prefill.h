// SPDX-License-Identifier: Apache-2.0
// Attention of several new tokens per request.
#pragma once

#include <cstdint>
#include <memory>

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

struct BatchPrefillProblem {
  DType dtype_q = DType::kBF16;   ///< f32, f16, bf16
  DType dtype_kv = DType::kBF16;  ///< f32, f16, bf16
  DType dtype_out = DType::kBF16;
  int32_t num_qo_heads = 32;  ///< a multiple of num_kv_heads
  int32_t num_kv_heads = 8;
  int32_t head_dim_qk = 128;  ///< a multiple of 8, up to 512
  int32_t head_dim_vo = 128;
  int32_t page_size = 16;
  /// Query i of a request sees key j iff j <= kv_len - q_len + i: aligned at the end.
  bool causal = true;
  float sm_scale = 0;         ///< 0: 1 / sqrt(head_dim_qk)
  float logits_soft_cap = 0;  ///< c > 0: scores become c · tanh(score / c)
  /// Keys left of its own position that a query sees, itself always; -1: all.
  int32_t window_left = -1;
  /// Batch-invariant mode: keys are split every so many, a multiple of 64, whatever else is in the
  /// batch, so that a request's result does not depend on it. 0: split as balance wants.
  int32_t fixed_split_size = 0;
};

/// Attention of each request's newest q_len tokens over its paged KV cache, which already holds
/// them: prefill (q_len = kv_len), append and chunked prefill.
///
/// Plan/run as in BatchDecode.
class FLASHINFER_API BatchPrefill {
 public:
  /// Takes scratch memory from `workspace`, which must outlive this object.
  explicit BatchPrefill(Workspace& workspace);
  BatchPrefill(BatchPrefill&&) noexcept;
  BatchPrefill& operator=(BatchPrefill&&) noexcept;
  ~BatchPrefill();

  /// Bytes of workspace that Plan() takes for up to `max_requests` requests of `max_tokens` query
  /// tokens together.
  static size_t WorkspaceBytes(const BatchPrefillProblem& problem, int64_t max_requests,
                               int64_t max_tokens);

  /// Fixes the batch for the Run() calls that follow.
  ///
  ///   qo_indptr  [num_requests + 1]  i32, host memory, non-decreasing, first 0: rows of q
  ///
  /// q_len > kv_len is legal: with `causal` the first rows see nothing and give 0 and lse -inf.
  void Plan(const BatchPrefillProblem& problem, const TensorView& qo_indptr, const PageTable& pages,
            Backend backend = Backend(), Stream stream = {});

  ///   q    [num_tokens, num_qo_heads, head_dim_qk]
  ///   out  [num_tokens, num_qo_heads, head_dim_vo]
  ///   lse  [num_tokens, num_qo_heads]  f32, base-2 logarithm; undefined view when not wanted
  void Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
           const TensorView& lse = TensorView(), Stream stream = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What each backend says to the problem.
FLASHINFER_API Explanation Explain(const BatchPrefillProblem& problem);

}  // namespace flashinfer
