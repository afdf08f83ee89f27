// SPDX-License-Identifier: Apache-2.0
// RoPE as the dispatcher sees it: problem, parameters, candidates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/rope.h"

namespace flashinfer {

std::string ValueText(RopeScaling value);
void ParseValue(std::string_view field, std::string_view text, RopeScaling& value);

/// The most rotated elements of a head: bounds the table of angles that a kernel keeps.
inline constexpr int64_t kMaxRotaryDim = 1024;

/// What decides who can run it.
struct RopeProblem {
  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  bool interleaved = false;
  int64_t rotary_dim = 128;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<RopeProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(interleaved)
  FLASHINFER_NAMED(rotary_dim)
  FLASHINFER_NAMED(arch)
}

/// Heads of all tokens, from `in` to `out`; strides count elements.
struct RopeHeads {
  const void* in;
  void* out;
  int64_t num_heads;  // 0: none
  int64_t head_dim;
  int64_t in_stride_token;
  int64_t in_stride_head;
  int64_t out_stride_token;
  int64_t out_stride_head;
  float quant_scale;  // 1 unless the output is fp8
};

/// Positions: of ids where there are any, else by offsets.
struct RopePositions {
  const void* ids = nullptr;  // i32 or i64
  int64_t ids_stride = 0;
  DType dtype_ids = DType::kI32;
  const int32_t* indptr = nullptr;  // [num_requests + 1]
  const int32_t* offsets = nullptr;
  int64_t num_requests = 0;
};

/// How fast pair i turns. Unscaled it advances f = theta^(-2i / rotary_dim) radians per position;
/// its smoothness clamp(f · per_frequency + i · per_pair + constant, 0, 1) is the share that stays
/// unscaled.
struct RopeRule {
  double theta = 1e4;
  double scale = 1;
  double smooth_per_frequency = 0;
  double smooth_per_pair = 0;
  double smooth_constant = 0;
  float magnitude = 1;                       // multiplies cosines and sines
  const float* frequency_factors = nullptr;  // null: all ones
};

RopeRule MakeRopeRule(const RopeOptions& options, int64_t rotary_dim);

/// Turns (angle / 2π) that each pair advances per position, before frequency factors. In double, so
/// that angles of positions up to 2^31 are right to a float.
void FillTurnsPerPosition(const RopeRule& rule, int64_t rotary_dim, double* turns);

/// One call.
struct RopeParams {
  RopeHeads q;
  RopeHeads k;
  RopeHeads q_nope;  // only scaled and narrowed
  RopeHeads k_nope;
  int64_t num_tokens;
  int64_t rotary_dim;
  RopePositions positions;
  RopeRule rule;
  const float* cos_sin_cache;  // [num_positions, rotary_dim]; null: angles by the rule
  int64_t cos_sin_cache_stride;
  DType dtype;
  DType dtype_out;
  bool interleaved;
  Stream stream;
};

struct RopeOp {
  static constexpr std::string_view kName = "rope";
  using Problem = RopeProblem;
  using Entry = void (*)(const RopeParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
