// SPDX-License-Identifier: Apache-2.0
// What decode and prefill share: the problem, its checks, and the executor that backends write.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"

namespace flashinfer {

/// Attention over a paged KV cache, whatever the number of query tokens.
struct AttentionProblem {
  DType dtype_q = DType::kBF16;
  DType dtype_kv = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int32_t num_qo_heads = 32;
  int32_t num_kv_heads = 8;
  int32_t head_dim_qk = 128;
  int32_t head_dim_vo = 128;
  int32_t page_size = 16;
  bool causal = false;
  float sm_scale = 0;
  float logits_soft_cap = 0;
  int32_t window_left = -1;
  int32_t fixed_split_size = 0;

  int32_t group_size() const { return num_qo_heads / num_kv_heads; }
};

template <FieldsOf<AttentionProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(num_qo_heads)
  FLASHINFER_NAMED(num_kv_heads)
  FLASHINFER_NAMED(head_dim_qk)
  FLASHINFER_NAMED(head_dim_vo)
  FLASHINFER_NAMED(page_size)
  FLASHINFER_NAMED(causal)
  FLASHINFER_NAMED(sm_scale)
  FLASHINFER_NAMED(logits_soft_cap)
  FLASHINFER_NAMED(window_left)
  FLASHINFER_NAMED(fixed_split_size)
}

/// A batch's lengths, read from the page table at Plan(); empty q_len of decode are all ones.
struct AttentionLengths {
  std::vector<int32_t> q_len;       // [num_requests]
  std::vector<int64_t> q_begin;     // [num_requests + 1], rows of q
  std::vector<int64_t> kv_len;      // [num_requests]
  std::vector<int64_t> page_begin;  // [num_requests + 1], into the page indices
  const int32_t* pages = nullptr;
  int64_t pages_stride = 1;

  int64_t num_requests() const { return static_cast<int64_t>(kv_len.size()); }
  int64_t num_tokens() const { return q_begin.empty() ? 0 : q_begin.back(); }
};

/// One Run(); `lse` may be undefined.
struct AttentionTensors {
  const TensorView& q;
  const PagedKvCache& cache;
  const TensorView& out;
  const TensorView& lse;
};

/// A backend's planned attention.
class AttentionExecutor {
 public:
  virtual ~AttentionExecutor() = default;
  virtual void Plan(const AttentionProblem& problem, const AttentionLengths& lengths,
                    Workspace& workspace) = 0;
  virtual void Run(const AttentionTensors& tensors) const = 0;
};

using AttentionFactory = std::unique_ptr<AttentionExecutor> (*)();

/// Values that are never right, whoever runs it.
void CheckAttentionProblem(const AttentionProblem& problem);

/// Reads and checks the page table; throws kInvalidArgument naming the request and the value.
void ReadPageTable(const PageTable& pages, int32_t page_size, AttentionLengths& lengths);

/// q_len from an indptr of query rows, or one token each when `qo_indptr` is undefined.
void ReadQueryLengths(const TensorView& qo_indptr, AttentionLengths& lengths);

/// The tensors of a Run() against the plan.
void CheckAttentionTensors(const AttentionProblem& problem, const AttentionLengths& lengths,
                           const AttentionTensors& tensors);

/// Page, token and head strides of one cache tensor, in elements.
struct PageStrides {
  int64_t page;
  int64_t token;
  int64_t head;
};
PageStrides StridesOf(const TensorView& tensor, KvLayout layout);

/// Checks one of the two cache tensors: shape (negative sizes match any), dtype, dense last
/// dimension.
void CheckCacheTensor(std::string_view name, const TensorView& tensor, KvLayout layout, DType dtype,
                      int64_t page_size, int64_t num_kv_heads, int64_t head_dim);

}  // namespace flashinfer
