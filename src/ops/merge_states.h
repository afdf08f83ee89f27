// SPDX-License-Identifier: Apache-2.0
// Merging many attention states at once as the dispatcher sees it.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/attention/cascade.h"
#include "ops/merge_state.h"

namespace flashinfer {

struct MergeStatesProblem {
  DType dtype = DType::kBF16;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<MergeStatesProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(arch)
}

struct MergeStatesParams {
  /// Without `indptr`, strides of tokens are as given; with it, a token's states begin at
  /// indptr[token] and the token strides are 0.
  StateRows states;
  int64_t v_stride_state;
  int64_t s_stride_state;
  StateRows merged;
  const int32_t* indptr = nullptr;  ///< [num_tokens + 1]
  int64_t indptr_stride = 0;
  int64_t num_states = 0;  ///< of each token, without `indptr`
  int64_t num_tokens;
  int64_t num_heads;
  int64_t head_dim;
  DType dtype;
  Stream stream = {};
};

struct MergeStatesOp {
  static constexpr std::string_view kName = "merge_states";
  using Problem = MergeStatesProblem;
  using Entry = void (*)(const MergeStatesParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
