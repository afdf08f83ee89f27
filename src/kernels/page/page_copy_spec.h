// SPDX-License-Identifier: Apache-2.0
// Rows to and from a paged cache: what changes the kernel's code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/portable.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::kernels {

/// Keys or values (or latents): dense rows and the cache; strides count elements.
struct PageCopyRows {
  void* rows;   // [num_tokens, num_heads, head_dim]
  void* cache;  // [num_pages, page_size, num_heads, head_dim], or NHD's sisters by strides
  int64_t rows_stride_token;
  int64_t rows_stride_head;
  int64_t cache_stride_page;
  int64_t cache_stride_slot;
  int64_t cache_stride_head;
  int32_t num_units;  ///< accesses of a token: num_heads * head_dim / vector_size
  float scale;        ///< rows are divided by it on their way to the cache, and multiplied back
  Divisor units_per_head;
};

/// Block (t, c) moves accesses c · NumThreads() + thread of tokens t · tokens_tile on; blocks of
/// the second part come after those of the first.
struct PageCopyParams {
  PageCopyRows parts[2];
  const int32_t* batch_indices;  // [num_tokens]
  const int32_t* positions;      // [num_tokens]; negative: the token is left out
  const int32_t* indptr;         // [num_requests + 1]
  const int32_t* indices;        // pages
  int64_t num_tokens;
  Divisor page_size;
};

/// Every field changes the machine code.
struct PageCopySpec {
  using Params = PageCopyParams;
  static constexpr const char* kName = "page_copy.simt";
  static constexpr const char* kType = "PageCopySpec";
  static constexpr const char* kHeader = "kernels/page/page_copy_simt_sm75.cuh";
  static constexpr const char* kNamespace = "page_copy_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kBF16;     ///< of the rows
  DType dtype_kv = DType::kBF16;  ///< of the cache
  bool gathers = false;           ///< from the cache to rows
  int32_t vector_size = 8;        ///< elements of an access
  int32_t tokens_tile = 4;        ///< tokens of a block

  friend constexpr bool operator==(const PageCopySpec&, const PageCopySpec&) = default;
};

template <FieldsOf<PageCopySpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(gathers)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(tokens_tile)
}

/// H200, 2026-11-30, appending 8192 tokens of 8 heads of 128 in bf16, kernels for dense rows alone:
/// 128 threads with 4 tokens of one part take 17.8 µs, of both parts 18.0, with 2 tokens 18.4; 256
/// with 8 17.9, 1024 with 16 19.2; a warp for two rows 17.7, blocks that stay 18.2 to 19.5, bulk
/// copies 18.5 to 20. Hints to the caches change nothing: a plain copy of as many bytes takes 17.6,
/// and a grid that does nothing 5.1. Strides that each thread looks up take 40 registers in place
/// of 32, and 18.4 µs.
constexpr int32_t NumThreads(const PageCopySpec&) { return 128; }

/// Page and slot of each token.
constexpr int32_t SmemBytes(const PageCopySpec& spec) { return spec.tokens_tile * 8; }

}  // namespace flashinfer::kernels
