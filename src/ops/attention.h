// SPDX-License-Identifier: Apache-2.0
// What all forms of attention share: tables of a batch, checks, and the executor of a backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/attention/kv_cache.h"
#include "flashinfer/attention/problem.h"
#include "flashinfer/stream.h"
#include "flashinfer/tensor.h"
#include "ops/attention_variant.h"

namespace flashinfer {

std::string ValueText(MaskMode value);
std::string ValueText(PositionEncoding value);
void ParseValue(std::string_view field, std::string_view text, MaskMode& value);
void ParseValue(std::string_view field, std::string_view text, PositionEncoding& value);

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
  FLASHINFER_NAMED(mask)
  FLASHINFER_NAMED(window_left)
  FLASHINFER_NAMED(sm_scale)
  FLASHINFER_NAMED(logits_soft_cap)
  FLASHINFER_NAMED(pos_encoding)
  FLASHINFER_NAMED(rope_scale)
  FLASHINFER_NAMED(rope_theta)
  FLASHINFER_NAMED(has_bias)
  FLASHINFER_NAMED(has_sinks)
  FLASHINFER_NAMED(fixed_split_size)
  FLASHINFER_NAMED(arch)
  if (self.variant != nullptr) visit("variant", self.variant);
}

/// Whether a query sees no key after its own position.
inline bool IsCausal(MaskMode mask) {
  return mask == MaskMode::kCausal || mask == MaskMode::kMultiItem;
}

/// Page size of keys that lie one after another: AttentionTables without pages.
inline constexpr int32_t kNoPages = 0;

/// Where the masks of a batch are; see AttentionMask.
struct MaskTables {
  const void* custom = nullptr;
  bool is_packed = false;
  std::vector<int64_t> custom_begin;  // [num_requests], elements or bytes
  std::vector<int32_t> prefix_len;    // [num_requests]
  TensorView token_pos_in_items;
};

/// A batch as its tables tell, read at Plan().
struct AttentionTables {
  Device device;                   // of everything that Run() reads
  std::vector<int32_t> q_len;      // [num_requests]
  std::vector<int64_t> q_begin;    // [num_requests + 1], rows of q
  std::vector<int64_t> kv_len;     // [num_requests]
  std::vector<int64_t> kv_begin;   // [num_requests + 1], into `pages`; without: slots of page 0
  const int32_t* pages = nullptr;  // on `device`
  int64_t pages_stride = 1;
  MaskTables mask;

  int64_t num_requests() const { return static_cast<int64_t>(kv_len.size()); }
  int64_t num_tokens() const { return q_begin.empty() ? 0 : q_begin.back(); }
};

/// Lengths that are known on the device alone, when a plan's kernel reads them.
struct DeviceLengths {
  const int32_t* indptr = nullptr;         // [max_requests + 1]
  const int32_t* last_page_len = nullptr;  // [max_requests]; null: there is kv_len
  const int32_t* kv_len = nullptr;         // [max_requests]
  const int32_t* qo_indptr = nullptr;      // [max_requests + 1]; null: one token a request
  int64_t indptr_stride = 1;
  int64_t last_page_len_stride = 1;  // or that of kv_len
  int64_t qo_indptr_stride = 1;
  int32_t max_requests = 0;
  int32_t max_pages = 0;   // of all requests together
  int64_t max_tokens = 0;  // likewise
  int32_t page_size = 1;
};

/// One Run(). Keys that are not in pages are one page here, of all tokens. `lse` may be undefined.
struct AttentionTensors {
  const TensorView& q;
  const PagedKvCache& cache;
  const TensorView& out;
  const TensorView& lse;
  const AttentionExtras& extras;
};

/// A backend's planned attention.
class AttentionExecutor {
 public:
  virtual ~AttentionExecutor() = default;
  /// `tables` may go afterwards.
  virtual void Plan(const AttentionProblem& problem, const AttentionTables& tables,
                    Workspace& workspace, Stream stream) = 0;
  virtual void Run(const AttentionTensors& tensors, Stream stream) const = 0;
  /// A plan that Replan() makes on the device; of `tables` it reads nothing but sizes, and where
  /// pages and tensors are.
  virtual void PlanOnDevice(const AttentionProblem& problem, const AttentionTables& tables,
                            const DeviceLengths& lengths, Workspace& workspace, Stream stream);
  virtual void Replan(Stream) const {}
};

/// A candidate's entry.
struct AttentionEntry {
  std::unique_ptr<AttentionExecutor> (*make)();
  /// Workspace of a plan for up to so many requests, of so many query tokens together.
  size_t (*workspace_bytes)(const AttentionProblem& problem, int64_t max_requests,
                            int64_t max_tokens);
};

/// Values that are never right, whoever runs it.
void CheckAttentionProblem(const AttentionProblem& problem);

/// Reads and checks the page table; throws kInvalidArgument naming the request and the value.
void ReadPageTable(const PageTable& pages, int32_t page_size, AttentionTables& tables);

/// The same of keys that lie one after another.
void ReadKvIndptr(const TensorView& kv_indptr, AttentionTables& tables);

/// Checks a page table on `tables.device` and takes what can be known of it: sizes and addresses.
DeviceLengths ReadDevicePageTable(const PageTable& pages, int32_t page_size,
                                  AttentionTables& tables,
                                  std::string_view lengths_name = "last_page_len");

/// The same of keys that lie one after another, of at most so many together.
DeviceLengths ReadDeviceKvIndptr(const TensorView& kv_indptr, int64_t max_keys,
                                 AttentionTables& tables);

/// Checks an indptr of query rows on `tables.device`, of at most so many together; undefined: one
/// token a request.
void ReadDeviceQueryLengths(const TensorView& qo_indptr, int64_t max_tokens,
                            AttentionTables& tables, DeviceLengths& lengths);

/// q_len from an indptr of query rows, or one token each when `qo_indptr` is undefined.
void ReadQueryLengths(const TensorView& qo_indptr, AttentionTables& tables);

/// What `mode` asks for, and nothing else, must be there. Lengths have been read.
void ReadMask(MaskMode mode, const AttentionMask& mask, AttentionTables& tables);

/// The tensors of a Run() against the plan.
void CheckAttentionTensors(const AttentionProblem& problem, const AttentionTables& tables,
                           const AttentionTensors& tensors);

/// The geometric slopes of Press et al., 2022 (ALiBi): 2^(-8 i / n) of n heads, a power of two;
/// more heads take every other one of 2^(-4 i / n).
std::vector<float> AlibiSlopes(int32_t num_qo_heads);

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
                      int64_t page_size, int64_t num_kv_heads, int64_t head_dim,
                      Device device = {});

}  // namespace flashinfer
