// SPDX-License-Identifier: Apache-2.0
// RoPE as the dispatcher sees it: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/rope.h"

namespace flashinfer {

/// The most rotated elements of a head: bounds the table of angles that a kernel keeps.
inline constexpr int64_t kMaxRotaryDim = 1024;

/// What decides who can run it.
struct RopeProblem {
  DType dtype = DType::kBF16;
  bool interleaved = false;
  int64_t rotary_dim = 128;
};

template <FieldsOf<RopeProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(interleaved)
  FLASHINFER_NAMED(rotary_dim)
}

/// Heads of all tokens, rotated from `in` to `out`; strides count elements.
struct RopeHeads {
  const void* in;
  void* out;
  int64_t num_heads;
  int64_t in_stride_token;
  int64_t in_stride_head;
  int64_t out_stride_token;
  int64_t out_stride_head;
};

/// One call.
struct RopeParams {
  RopeHeads q;
  RopeHeads k;
  int64_t num_tokens;
  int64_t head_dim;
  int64_t rotary_dim;
  const void* pos_ids;
  int64_t pos_ids_stride;
  const float* frequency_factors;  // null: all ones
  double rope_theta;
  double rope_scale;
  DType dtype;
  DType dtype_pos_ids;
  bool interleaved;
};

struct RopeOp {
  static constexpr std::string_view kName = "rope";
  using Problem = RopeProblem;
  using Entry = void (*)(const RopeParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
