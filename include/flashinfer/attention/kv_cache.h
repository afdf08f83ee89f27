// SPDX-License-Identifier: Apache-2.0
// Keys and values as attention and page operators see them: in pages, or one after another.
#pragma once

#include <cstdint>
#include <string_view>

#include "flashinfer/export.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Order of the two middle dimensions of a page.
enum class KvLayout : uint8_t {
  kNHD,  ///< [num_pages, page_size, num_kv_heads, head_dim]
  kHND,  ///< [num_pages, num_kv_heads, page_size, head_dim]
};

/// `NHD`, `HND`.
FLASHINFER_API std::string_view Name(KvLayout layout);

/// Keys and values in pages. The last dimension is dense; page, token and head strides may be any,
/// so one tensor with a K and a V plane is given as two views into it.
///
///   k  [num_pages, page_size, num_kv_heads, head_dim_qk]  (or HND)
///   v  [num_pages, page_size, num_kv_heads, head_dim_vo]  (or HND)
struct PagedKvCache {
  TensorView k;
  TensorView v;
  KvLayout layout = KvLayout::kNHD;
};

/// Which pages hold each request's tokens. Token t of request b is in page
/// indices[indptr[b] + t / page_size], slot t % page_size, and
/// kv_len = (indptr[b+1] - indptr[b] - 1) * page_size + last_page_len[b], or 0 with no page.
///
///   indptr         [num_requests + 1]  i32, host memory, non-decreasing, indptr[0] = 0
///   indices        [indptr[num_requests]]  i32, on the device that runs
///   last_page_len  [num_requests]      i32, host memory, each in 1..page_size (ignored with no
///   page)
struct PageTable {
  TensorView indptr;
  TensorView indices;
  TensorView last_page_len;
};

/// Keys and values of requests one after another; any strides but for a dense last dimension.
///
///   k  [num_keys, num_kv_heads, head_dim_qk], or HND: [num_kv_heads, num_keys, head_dim_qk]
///   v  [num_keys, num_kv_heads, head_dim_vo], or likewise
struct RaggedKv {
  TensorView k;
  TensorView v;
  KvLayout layout = KvLayout::kNHD;
};

}  // namespace flashinfer
