// SPDX-License-Identifier: Apache-2.0
// Writing to a paged KV cache.
#pragma once

#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/backend.h"
#include "flashinfer/export.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Writes new tokens' keys and values into their pages.
///
///   k, v           [num_tokens, num_kv_heads, head_dim]   f32, f16, bf16; the cache's dtype may
///                                                         differ: values are rounded to it
///   batch_indices  [num_tokens]  i32: the request of each token
///   positions      [num_tokens]  i32: its position in the request, 0-based
///
/// `pages` describes each request after the append. Throws kInvalidArgument when a request or a
/// position is outside it, before anything is written. Two tokens must not share a slot.
FLASHINFER_API void AppendPagedKvCache(const TensorView& k, const TensorView& v,
                                       const TensorView& batch_indices, const TensorView& positions,
                                       const PagedKvCache& cache, const PageTable& pages,
                                       Backend backend = Backend(), Stream stream = {});

}  // namespace flashinfer
