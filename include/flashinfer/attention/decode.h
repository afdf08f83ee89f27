// SPDX-License-Identifier: Apache-2.0
// Attention of one new token per request.
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

/// Attention of one new token per request over a paged KV cache.
///
/// Plan() decides how to share the work; call it when the batch changes, not per layer. Run() only
/// runs: it allocates nothing. One object serves one stream at a time; different objects are
/// independent.
class FLASHINFER_API BatchDecode {
 public:
  /// Takes scratch memory from `workspace`, which must outlive this object; runs on its device.
  explicit BatchDecode(Workspace& workspace);
  BatchDecode(BatchDecode&&) noexcept;
  BatchDecode& operator=(BatchDecode&&) noexcept;
  ~BatchDecode();

  /// Bytes of workspace that Plan() takes for up to `max_requests` requests of any length.
  static size_t WorkspaceBytes(const AttentionProblem& problem, int64_t max_requests,
                               Backend backend = Backend());

  /// What each backend says to the problem.
  static Explanation Explain(const AttentionProblem& problem);

  /// Fixes the batch for the Run() calls that follow. The page table is read here and may go, but
  /// for `indices`, which Run() reads. MaskMode::kCausal is the same as kNone here; the others are
  /// for prefill. Throws kInvalidArgument when a shape or length is wrong and kUnsupported, with
  /// every backend's reason, when none takes the problem.
  void Plan(const AttentionProblem& problem, const PageTable& pages, Backend backend = Backend(),
            Stream stream = {});

  /// As Plan(), of lengths that the host does not know: Replan(), and this call at its end, makes
  /// the plan that Plan() would make, on the device. Launches keep their shapes, so one recording
  /// of Replan() and any number of Run()s serves every batch up to these sizes.
  ///
  ///   pages.indptr         [max_requests + 1]  i32, up to 4096 requests
  ///   pages.indices        [max_pages]         i32
  ///   pages.last_page_len  [max_requests]      i32
  ///
  /// All three are on the CUDA device of the workspace, stay there, and hold what Plan() asks for
  /// when Replan() runs. Nothing tells when they do not: pages beyond max_pages are left out, a
  /// request whose pages end before they begin has none. A batch of fewer requests is filled up
  /// with such as have no page; Run() takes q, out and lse of max_requests.
  ///
  /// Throws kInvalidArgument and kUnsupported as Plan() does, the former also for variants, and
  /// with cuda.prefill and cuda.prefill_simt for biases and fixed_split_size. It may allocate and
  /// compile; Replan() never does.
  void PlanOnDevice(const AttentionProblem& problem, const PageTable& pages,
                    Backend backend = Backend(), Stream stream = {});

  /// Plans the lengths that are on the device when the stream gets here.
  void Replan(Stream stream = {}) const;

  /// A request with kv_len 0 gives 0 and lse -inf.
  ///
  ///   q    [num_requests, num_qo_heads, head_dim_qk]
  ///   out  [num_requests, num_qo_heads, head_dim_vo]
  ///   lse  [num_requests, num_qo_heads]  f32, base-2 logarithm; undefined view when not wanted
  ///
  /// Tensors must match the plan; a mismatch throws kInvalidArgument before anything is written.
  void Run(const TensorView& q, const PagedKvCache& cache, const TensorView& out,
           const TensorView& lse = TensorView(), const AttentionExtras& extras = {},
           Stream stream = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Attention of one token, q [num_qo_heads, head_dim_qk] to out [num_qo_heads, head_dim_vo] and lse
/// [num_qo_heads], over keys that lie one after another. As SinglePrefill() of prefill.h, but for
/// these ranks and that there is no mask.
FLASHINFER_API void SingleDecode(const AttentionProblem& problem,
                                 const SingleAttentionTensors& tensors, Workspace& workspace,
                                 Backend backend = Backend(), Stream stream = {});

}  // namespace flashinfer
