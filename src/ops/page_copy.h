// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache, and gathering from it, as the dispatcher sees them.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/page.h"

namespace flashinfer {

struct PageCopyProblem {
  DType dtype = DType::kBF16;     ///< of the rows
  DType dtype_kv = DType::kBF16;  ///< of the cache
  int32_t arch = 0;               ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<PageCopyProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(arch)
}

/// Keys or values: rows and the cache that they go to or come from; strides count elements.
struct PageCopyRows {
  void* rows;
  void* cache;
  int64_t rows_stride_token;
  int64_t rows_stride_head;
  int64_t cache_stride_page;
  int64_t cache_stride_slot;
  int64_t cache_stride_head;
  int64_t head_dim;
  float scale;  ///< rows are divided by it on their way to the cache, and multiplied back
};

struct PageCopyParams {
  PageCopyRows parts[2];
  const int32_t* batch_indices;
  const int32_t* positions;
  const int32_t* indptr;
  const int32_t* indices;
  int64_t num_tokens;
  int64_t num_heads;
  int64_t page_size;
  DType dtype;
  DType dtype_kv;
  Stream stream = {};
};

struct PageAppendOp {
  static constexpr std::string_view kName = "append_paged_kv_cache";
  using Problem = PageCopyProblem;
  using Entry = void (*)(const PageCopyParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

struct PageGatherOp {
  static constexpr std::string_view kName = "gather_paged_kv_cache";
  using Problem = PageCopyProblem;
  using Entry = void (*)(const PageCopyParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
