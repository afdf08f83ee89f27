// SPDX-License-Identifier: Apache-2.0
// Attention of several new tokens per request.
#pragma once

#include <cstdint>
#include <memory>

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/attention/problem.h"
#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Attention of each request's newest q_len tokens over its paged KV cache, which already holds
/// them: prefill (q_len = kv_len), append and chunked prefill.
///
/// Plan/run as in BatchDecode.
class FLASHINFER_API BatchPrefill {
 public:
  /// Takes scratch memory from `workspace`, which must outlive this object; runs on its device.
  explicit BatchPrefill(Workspace& workspace);
  BatchPrefill(BatchPrefill&&) noexcept;
  BatchPrefill& operator=(BatchPrefill&&) noexcept;
  ~BatchPrefill();

  /// Bytes of workspace that Plan() takes for up to `max_requests` requests of `max_tokens` query
  /// tokens together.
  static size_t WorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                               int64_t max_tokens, Backend backend = Backend());

  /// What each backend says to the problem.
  static Explanation Explain(const AttentionProblem& problem);

  /// Fixes the batch for the Run() calls that follow.
  ///
  ///   qo_indptr  [num_requests + 1]  i32, host memory, non-decreasing, first 0: rows of q
  ///
  /// q_len > kv_len is legal: with MaskMode::kCausal the first rows see nothing.
  void Plan(const AttentionProblem& problem, const TensorView& qo_indptr, const PageTable& pages,
            const AttentionMask& mask = {}, Backend backend = Backend(), Stream stream = {});

  /// As BatchDecode::PlanOnDevice(): one recording of Replan() and any number of Run()s serves
  /// every batch up to these sizes.
  ///
  ///   qo_indptr            [max_requests + 1]  i32, on the CUDA device of the workspace
  ///   pages.indptr         [max_requests + 1]  likewise, up to 4096 requests
  ///   pages.indices        [max_pages]         likewise
  ///   pages.last_page_len  [max_requests]      likewise
  ///
  /// Run() takes q, out and lse of `max_tokens` rows, and leaves those alone that no request has.
  /// A request may have no token. Masks are kNone and kCausal; there is no bias, no variant and no
  /// fixed_split_size. Tiles are chosen for requests of max_tokens / max_requests tokens.
  void PlanOnDevice(const AttentionProblem& problem, const TensorView& qo_indptr,
                    const PageTable& pages, int64_t max_tokens, Backend backend = Backend(),
                    Stream stream = {});

  /// Plans the lengths that are on the device when the stream gets here.
  void Replan(Stream stream = {}) const;

  ///   q    [num_tokens, num_qo_heads, head_dim_qk]
  ///   out  [num_tokens, num_qo_heads, head_dim_vo]
  ///   lse  [num_tokens, num_qo_heads]  f32, base-2 logarithm; undefined view when not wanted
  void Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
           const TensorView& lse = TensorView(), const AttentionExtras& extras = {},
           Stream stream = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// As BatchPrefill, where the keys of all requests lie one after another without pages.
class FLASHINFER_API BatchPrefillRagged {
 public:
  explicit BatchPrefillRagged(Workspace& workspace);
  BatchPrefillRagged(BatchPrefillRagged&&) noexcept;
  BatchPrefillRagged& operator=(BatchPrefillRagged&&) noexcept;
  ~BatchPrefillRagged();

  static size_t WorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                               int64_t max_tokens, Backend backend = Backend());

  static Explanation Explain(const AttentionProblem& problem);

  ///   qo_indptr  [num_requests + 1]  i32, host memory, non-decreasing, first 0: rows of q
  ///   kv_indptr  [num_requests + 1]  i32, host memory, non-decreasing, first 0: rows of k and v
  void Plan(const AttentionProblem& problem, const TensorView& qo_indptr,
            const TensorView& kv_indptr, const AttentionMask& mask = {},
            Backend backend = Backend(), Stream stream = {});

  /// As BatchPrefill::PlanOnDevice(), of up to `max_keys` keys together.
  ///
  ///   qo_indptr  [max_requests + 1]  i32, on the CUDA device of the workspace
  ///   kv_indptr  [max_requests + 1]  likewise, up to 4096 requests
  ///
  /// Run() takes k and v of `max_keys` rows or more.
  void PlanOnDevice(const AttentionProblem& problem, const TensorView& qo_indptr,
                    const TensorView& kv_indptr, int64_t max_tokens, int64_t max_keys,
                    Backend backend = Backend(), Stream stream = {});

  /// Plans the lengths that are on the device when the stream gets here.
  void Replan(Stream stream = {}) const;

  void Run(const TensorView& q, const RaggedKv& kv, const TensorView& out,
           const TensorView& lse = TensorView(), const AttentionExtras& extras = {},
           Stream stream = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Attention of one request's newest tokens over keys that lie one after another. Dtypes, head
/// counts and dims are those of the tensors: what `problem` says of them is not read. Plans and
/// runs at once, with scratch memory from `workspace`, on its device.
FLASHINFER_API void SinglePrefill(const AttentionProblem& problem,
                                  const SingleAttentionTensors& tensors, Workspace& workspace,
                                  Backend backend = Backend(), Stream stream = {});

}  // namespace flashinfer
