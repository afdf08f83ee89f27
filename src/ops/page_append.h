// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache as the dispatcher sees it.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/page.h"

namespace flashinfer {

struct PageAppendProblem {
  DType dtype = DType::kBF16;
  DType dtype_kv = DType::kBF16;
};

template <FieldsOf<PageAppendProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_kv)
}

/// Keys or values: new rows and the cache that they go to; strides count elements.
struct PageAppendRows {
  const void* from;
  void* cache;
  int64_t from_stride_token;
  int64_t from_stride_head;
  int64_t stride_page;
  int64_t stride_slot;
  int64_t stride_head;
  int64_t head_dim;
};

struct PageAppendParams {
  PageAppendRows rows[2];
  const int32_t* batch_indices;
  const int32_t* positions;
  const int32_t* indptr;
  const int32_t* indices;
  int64_t num_tokens;
  int64_t num_heads;
  int64_t page_size;
  DType dtype;
  DType dtype_kv;
};

struct PageAppendOp {
  static constexpr std::string_view kName = "append_paged_kv_cache";
  using Problem = PageAppendProblem;
  using Entry = void (*)(const PageAppendParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
