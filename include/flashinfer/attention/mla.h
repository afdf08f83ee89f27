// SPDX-License-Identifier: Apache-2.0
// Latent attention (MLA): all query heads share one compressed key per token, which is the value
// too.
#pragma once

#include <cstdint>
#include <memory>

#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Latent attention after absorption of the up-projections (DeepSeek-V2, 2024). For query i, head h
/// and key j,
///
///     score = sm_scale · (q_nope[i, h] · ckv[j] + q_pe[i, h] · kpe[j])
///     score = logits_soft_cap · tanh(score / logits_soft_cap), with a soft cap
///
/// and out[i, h] = softmax(score over the keys that i sees) · ckv. A query that sees no key gives
/// 0, and lse = -inf. Keys that a query does not see may hold anything, NaN too.
struct MlaProblem {
  DType dtype_q = DType::kBF16;    ///< f32, f16, bf16
  DType dtype_kv = DType::kBF16;   ///< f32, f16, bf16, e4m3, e5m2, i8
  DType dtype_out = DType::kBF16;  ///< f32, f16, bf16
  int32_t num_heads = 128;
  int32_t head_dim_ckv = 512;  ///< a multiple of 8, up to 512
  int32_t head_dim_kpe = 64;   ///< a multiple of 8, up to 512; 0: keys have no part with positions
  int32_t page_size = 64;
  /// Query i of a request sees key j iff j <= kv_len - q_len + i: aligned at the end.
  bool causal = false;
  int32_t window_left = -1;  ///< keys left of its own position that a query sees; -1: all
  /// Not 0: the width of heads before absorption, which decides it, cannot be told from these
  /// (1 / sqrt(128 + 64) in DeepSeek-V3, times what YaRN wants).
  float sm_scale = 0;
  float logits_soft_cap = 0;  ///< 0: none
  /// Batch-invariant mode: keys are split every so many, a multiple of 64, whatever else is in the
  /// batch, so that a request's result does not depend on it. 0: split as balance wants.
  int32_t fixed_split_size = 0;
  /// 0: host memory; 90: a CUDA device of compute capability 9.0. Plan() takes that of its
  /// workspace's device instead.
  int32_t arch = 0;
};

/// Which pages hold each request's tokens. Token t of request b is in page
/// indices[indptr[b] + t / page_size], slot t % page_size.
///
///   indptr   [num_requests + 1]      i32, host memory, non-decreasing, first 0
///   indices  [indptr[num_requests]]  i32, on the device that runs
///   kv_len   [num_requests]          i32, host memory, at most what the request's pages hold
struct MlaPageTable {
  TensorView indptr;
  TensorView indices;
  TensorView kv_len;
};

/// The last dimension is dense; page and token strides may be any, so one tensor that holds both is
/// given as two views into it.
///
///   ckv  [num_pages, page_size, head_dim_ckv]
///   kpe  [num_pages, page_size, head_dim_kpe]; may be undefined when head_dim_kpe is 0
struct MlaCache {
  TensorView ckv;
  TensorView kpe = TensorView();
  /// Of a quantised cache: what stored numbers are multiplied with, above 0.
  float ckv_scale = 1;
  float kpe_scale = 1;
  /// In place of ckv_scale: [num_pages, page_size, num_blocks] f32, where num_blocks divides
  /// head_dim_ckv into blocks of a multiple of 32; any strides.
  TensorView ckv_scales = TensorView();
};

/// Latent attention of each request's newest q_len tokens over its paged cache, which already holds
/// them: decode and chunked prefill.
///
/// Plan() decides how to share the work; call it when the batch changes, not per layer. Run() only
/// runs: it allocates nothing. One object serves one stream at a time; different objects are
/// independent.
class FLASHINFER_API BatchMla {
 public:
  /// Takes scratch memory from `workspace`, which must outlive this object; runs on its device.
  explicit BatchMla(Workspace& workspace);
  BatchMla(BatchMla&&) noexcept;
  BatchMla& operator=(BatchMla&&) noexcept;
  ~BatchMla();

  /// Bytes of workspace that Plan() takes for up to `max_requests` requests of `max_tokens` query
  /// tokens together.
  static size_t WorkspaceBytes(const MlaProblem& problem, int64_t max_requests, int64_t max_tokens,
                               Backend backend = Backend());

  /// What each backend says to the problem.
  static Explanation Explain(const MlaProblem& problem);

  /// Fixes the batch for the Run() calls that follow. The page table is read here and may go, but
  /// for `indices`, which Run() reads. Throws kInvalidArgument when a shape or length is wrong and
  /// kUnsupported, with every backend's reason, when none takes the problem.
  ///
  ///   qo_indptr  [num_requests + 1]  i32, host memory, non-decreasing, first 0: rows of q
  void Plan(const MlaProblem& problem, const TensorView& qo_indptr, const MlaPageTable& pages,
            Backend backend = Backend(), Stream stream = {});

  /// As BatchDecode::PlanOnDevice(): one recording of Replan() and any number of Run()s serves
  /// every batch up to these sizes.
  ///
  ///   qo_indptr      [max_requests + 1]  i32, on the CUDA device of the workspace
  ///   pages.indptr   [max_requests + 1]  likewise, up to 4096 requests
  ///   pages.indices  [max_pages]         likewise
  ///   pages.kv_len   [max_requests]      likewise
  ///
  /// Run() takes q, out and lse of `max_tokens` rows, and leaves those alone that no request has.
  /// A request may have no token. There is no fixed_split_size. Tiles are chosen for requests of
  /// max_tokens / max_requests tokens.
  void PlanOnDevice(const MlaProblem& problem, const TensorView& qo_indptr,
                    const MlaPageTable& pages, int64_t max_tokens, Backend backend = Backend(),
                    Stream stream = {});

  /// Plans the lengths that are on the device when the stream gets here.
  void Replan(Stream stream = {}) const;

  ///   q_nope  [num_tokens, num_heads, head_dim_ckv]
  ///   q_pe    [num_tokens, num_heads, head_dim_kpe]; may be undefined when head_dim_kpe is 0
  ///   out     [num_tokens, num_heads, head_dim_ckv]
  ///   lse     [num_tokens, num_heads]  f32, base-2 logarithm; undefined view when not wanted
  ///
  /// Tensors must match the plan; a mismatch throws kInvalidArgument before anything is written.
  void Run(const TensorView& q_nope, const TensorView& q_pe, const MlaCache& cache,
           const TensorView& out, const TensorView& lse = TensorView(), Stream stream = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashinfer
