// SPDX-License-Identifier: Apache-2.0
// Merging attention states: what changes the kernel's code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/portable.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::kernels {

/// Values [num_tokens, num_heads, head_dim] and scores [num_tokens, num_heads]; strides count
/// elements.
struct MergeStateRows {
  void* v;
  float* s;  ///< base-2 logarithms
  int64_t v_stride_token;
  int64_t v_stride_head;
  int64_t s_stride_token;
  int64_t s_stride_head;
};

struct MergeStatesParams {
  MergeStateRows first;   ///< state 0; state i follows at i times the strides below
  MergeStateRows second;  ///< state 1 when `is_pair`
  MergeStateRows merged;
  int64_t v_stride_state;
  int64_t s_stride_state;
  const uint8_t* mask;  ///< [num_tokens] bool: which tokens are merged; null: all
  int64_t mask_stride;
  const int32_t* indptr;  ///< [num_tokens + 1]: a token's first state; null: see num_states
  int64_t indptr_stride;
  int64_t num_rows;    ///< num_tokens * num_heads
  int32_t num_states;  ///< of every token, which then has its own row of states
  int32_t head_dim;
  Divisor num_heads;
  bool is_pair;
};

/// Every field changes the machine code.
struct MergeStatesSpec {
  using Params = MergeStatesParams;
  static constexpr const char* kName = "merge_states.simt";
  static constexpr const char* kType = "MergeStatesSpec";
  static constexpr const char* kHeader = "kernels/attention/merge_states_simt_sm75.cuh";
  static constexpr const char* kNamespace = "merge_states_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kBF16;
  int32_t vector_size = 8;  ///< elements of an access
  int32_t row_lanes = 16;   ///< lanes of a row: a power of two up to 32

  friend constexpr bool operator==(const MergeStatesSpec&, const MergeStatesSpec&) = default;
};

template <FieldsOf<MergeStatesSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(row_lanes)
}

constexpr int32_t NumThreads(const MergeStatesSpec&) { return 128; }

constexpr int32_t SmemBytes(const MergeStatesSpec&) { return 0; }

}  // namespace flashinfer::kernels
