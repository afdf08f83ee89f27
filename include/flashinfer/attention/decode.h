// SPDX-License-Identifier: Apache-2.0
// Attention of one new token per request.
#pragma once

#include <cstdint>
#include <memory>

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// What stays the same from Plan() to Plan(): the model's attention.
struct BatchDecodeProblem {
  DType dtype_q = DType::kBF16;   ///< f32, f16, bf16
  DType dtype_kv = DType::kBF16;  ///< f32, f16, bf16
  DType dtype_out = DType::kBF16;
  int32_t num_qo_heads = 32;  ///< a multiple of num_kv_heads
  int32_t num_kv_heads = 8;
  int32_t head_dim_qk = 128;  ///< a multiple of 8, up to 512
  int32_t head_dim_vo = 128;
  int32_t page_size = 16;
  float sm_scale = 0;         ///< 0: 1 / sqrt(head_dim_qk)
  float logits_soft_cap = 0;  ///< c > 0: scores become c · tanh(score / c)
  /// Keys left of its own position that a query sees, itself always; -1: all.
  int32_t window_left = -1;
  /// Batch-invariant mode: keys are split every so many, a multiple of 64, whatever else is in the
  /// batch, so that a request's result does not depend on it. 0: split as balance wants.
  int32_t fixed_split_size = 0;
};

/// Attention of one new token per request over a paged KV cache.
///
/// Plan() decides how to share the work; call it when the batch changes, not per layer. Run() only
/// runs: it allocates nothing. One object serves one stream at a time; different objects are
/// independent.
class FLASHINFER_API BatchDecode {
 public:
  /// Takes scratch memory from `workspace`, which must outlive this object.
  explicit BatchDecode(Workspace& workspace);
  BatchDecode(BatchDecode&&) noexcept;
  BatchDecode& operator=(BatchDecode&&) noexcept;
  ~BatchDecode();

  /// Bytes of workspace that Plan() takes for up to `max_requests` requests of any length.
  static size_t WorkspaceBytes(const BatchDecodeProblem& problem, int64_t max_requests);

  /// Fixes the batch for the Run() calls that follow. The page table is read here and may go, but
  /// for `indices`, which Run() reads. Throws kInvalidArgument when a shape or length is wrong and
  /// kUnsupported, with every backend's reason, when none takes the problem.
  void Plan(const BatchDecodeProblem& problem, const PageTable& pages, Backend backend = Backend(),
            Stream stream = {});

  /// out = softmax(q·kᵀ · sm_scale) · v for every request; a request with kv_len 0 gives 0 and
  /// lse -inf.
  ///
  ///   q    [num_requests, num_qo_heads, head_dim_qk]
  ///   out  [num_requests, num_qo_heads, head_dim_vo]
  ///   lse  [num_requests, num_qo_heads]  f32, base-2 logarithm; undefined view when not wanted
  ///
  /// Tensors must match the plan; a mismatch throws kInvalidArgument before anything is written.
  void Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
           const TensorView& lse = TensorView(), Stream stream = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What each backend says to the problem.
FLASHINFER_API Explanation Explain(const BatchDecodeProblem& problem);

}  // namespace flashinfer
