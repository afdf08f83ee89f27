// SPDX-License-Identifier: Apache-2.0
// Writing to a paged KV cache, reading it back, and the integers that go with it.
#pragma once

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

struct PageCopyOptions {
  /// Of a quantised cache (e4m3, e5m2, i8) whose dtype differs from the rows': a stored number
  /// times its scale is the value. 1 with any other cache.
  float k_scale = 1;
  float v_scale = 1;
  Backend backend = Backend();
};

/// Writes new tokens' keys and values into their pages.
///
///   k, v           [num_tokens, num_kv_heads, head_dim]  f32, f16, bf16, and the cache's dtype
///   batch_indices  [num_tokens]  i32: the request of each token; a token with a negative one is
///                                left out
///   positions      [num_tokens]  i32: its position in the request, 0-based
///
/// Where the cache's dtype differs, values are divided by the scale and rounded, saturating in
/// 8 bits; where it does not, which may then be any, they are copied. `pages` describes each
/// request after the append. Throws kInvalidArgument when a request or a position is outside it,
/// before anything is written. Two tokens must not share a slot.
FLASHINFER_API void AppendPagedKvCache(const TensorView& k, const TensorView& v,
                                       const TensorView& batch_indices, const TensorView& positions,
                                       const PagedKvCache& cache, const PageTable& pages,
                                       const PageCopyOptions& options = {}, Stream stream = {});

/// AppendPagedKvCache() for latent attention: k is the latent, v the part of a key with positions.
///
///   ckv        [num_tokens, head_dim_ckv]
///   kpe        [num_tokens, head_dim_kpe]             head_dim_kpe may be 0
///   ckv_cache  [num_pages, page_size, head_dim_ckv]   page and token strides may be any
///   kpe_cache  [num_pages, page_size, head_dim_kpe]
FLASHINFER_API void AppendPagedMlaKvCache(const TensorView& ckv, const TensorView& kpe,
                                          const TensorView& batch_indices,
                                          const TensorView& positions, const TensorView& ckv_cache,
                                          const TensorView& kpe_cache, const PageTable& pages,
                                          const PageCopyOptions& options = {}, Stream stream = {});

/// Reads tokens back out of their pages: the reverse of AppendPagedKvCache(), with the same
/// arguments. Rows of tokens that are left out are not written; a token may be read many times.
FLASHINFER_API void GatherPagedKvCache(const PagedKvCache& cache, const PageTable& pages,
                                       const TensorView& batch_indices, const TensorView& positions,
                                       const TensorView& k, const TensorView& v,
                                       const PageCopyOptions& options = {}, Stream stream = {});

/// The reverse of AppendPagedMlaKvCache().
FLASHINFER_API void GatherPagedMlaKvCache(const TensorView& ckv_cache, const TensorView& kpe_cache,
                                          const PageTable& pages, const TensorView& batch_indices,
                                          const TensorView& positions, const TensorView& ckv,
                                          const TensorView& kpe,
                                          const PageCopyOptions& options = {}, Stream stream = {});

/// Request and position of each of a batch's newest tokens, as the functions above take them.
///
///   append_indptr  [num_requests + 1]  i32, non-decreasing, first 0: rows of the tokens
///   seq_lens       [num_requests]      i32: tokens of each request, the new ones included
///   batch_indices  [num_tokens]        i32, written; -1 from append_indptr[num_requests] on
///   positions      [num_tokens]        i32, written; seq_lens[b] - (new tokens of b) + i, likewise
///
/// Throws kInvalidArgument when a request has more new tokens than tokens, or all of them together
/// more than num_tokens; on a CUDA device, where the host cannot see the numbers, they must be
/// right.
FLASHINFER_API void GetBatchIndicesPositions(const TensorView& append_indptr,
                                             const TensorView& seq_lens,
                                             const TensorView& batch_indices,
                                             const TensorView& positions,
                                             Backend backend = Backend(), Stream stream = {});

/// Tokens of each request: (pages - 1) * page_size + last_page_len, or 0 without a page.
///
///   indptr         [num_requests + 1]  i32, non-decreasing, first 0: pages
///   last_page_len  [num_requests]      i32, each in 1..page_size (ignored with no page)
///   seq_lens       [num_requests]      i32, written
///
/// Numbers are checked in host memory; on a CUDA device they must be right.
FLASHINFER_API void GetSeqLens(const TensorView& indptr, const TensorView& last_page_len,
                               int32_t page_size, const TensorView& seq_lens,
                               Backend backend = Backend(), Stream stream = {});

}  // namespace flashinfer
