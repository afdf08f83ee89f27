// SPDX-License-Identifier: Apache-2.0
// Merging attention states as the dispatcher sees it.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/attention/cascade.h"

namespace flashinfer {

struct MergeStateProblem {
  DType dtype = DType::kBF16;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<MergeStateProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(arch)
}

/// A state's values [num_tokens, num_heads, head_dim] and scores [num_tokens, num_heads].
struct StateRows {
  void* v;
  float* s;
  int64_t v_stride_token;
  int64_t v_stride_head;
  int64_t s_stride_token;
  int64_t s_stride_head;
};

struct MergeStateParams {
  StateRows a;
  StateRows b;
  StateRows merged;
  /// [num_tokens]: 0 leaves a token's merged state as it is; null: all merge.
  const uint8_t* mask = nullptr;
  int64_t mask_stride = 0;
  int64_t num_tokens;
  int64_t num_heads;
  int64_t head_dim;
  DType dtype;
  Stream stream = {};
};

struct MergeStateOp {
  static constexpr std::string_view kName = "merge_state";
  using Problem = MergeStateProblem;
  using Entry = void (*)(const MergeStateParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
