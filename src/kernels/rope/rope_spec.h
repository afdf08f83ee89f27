// SPDX-License-Identifier: Apache-2.0
// RoPE on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/portable.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::kernels {

/// Pairs whose frequencies travel with the launch.
inline constexpr int32_t kMaxRopePairs = 256;

inline constexpr int32_t kRopeBlockThreads = 256;

/// Heads of all tokens; strides count elements.
struct RopeHeadsParams {
  const void* in;
  void* out;
  int64_t in_stride_token;
  int64_t in_stride_head;
  int64_t out_stride_token;
  int64_t out_stride_head;
  int32_t num_heads;
  int32_t num_groups;    ///< ceil(num_heads / heads_per_thread)
  int32_t first_copied;  ///< elements from here on are only scaled and narrowed
  int32_t end;           ///< elements up to here are written: head_dim, or first_copied in place
  float quant_scale;     ///< multiplies an 8-bit output
};

/// A block takes `tokens_per_block` tokens; gridDim.y blocks share their units. A unit is a token's
/// group of heads times an access: first the rotated pairs, then accesses that are copied.
struct RopeParams {
  RopeHeadsParams heads[4];  ///< queries and keys, which are rotated, and parts that are copied
  const void* ids;           ///< [num_tokens] positions; null: offsets and indptr give them
  int64_t ids_stride;
  const int32_t* indptr;   ///< [num_requests + 1]
  const int32_t* offsets;  ///< [num_requests]: position of a request's first token
  const float* cache;      ///< [positions, rotary_dim]: cosines, then sines
  int64_t cache_stride;
  const float* frequency_factors;  ///< [rotary_dim / 2], with has_factors
  int64_t num_tokens;
  int32_t num_requests;
  int32_t num_pairs;
  int32_t tokens_per_block;
  float magnitude;  ///< multiplies sines and cosines
  Divisor units_per_group;
  Divisor groups_per_token;
  /// Turns that a pair advances per position: their fraction, 2^64 is one; with has_factors, which
  /// divide them, the bits of a double.
  uint64_t turns[kMaxRopePairs];
};

/// Every field changes the machine code.
struct RopeSpec {
  using Params = RopeParams;
  static constexpr const char* kName = "rope.simt";
  static constexpr const char* kType = "RopeSpec";
  static constexpr const char* kHeader = "kernels/rope/rope_simt_sm75.cuh";
  static constexpr const char* kNamespace = "rope_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  DType dtype_ids = DType::kI32;  ///< of positions
  bool interleaved = false;
  bool has_cache = false;        ///< cosines and sines come from a table in memory
  bool has_factors = false;      ///< each pair's frequency is divided by a number in memory
  int32_t vector_size = 8;       ///< elements of an access, and pairs of a thread
  int32_t heads_per_thread = 4;  ///< heads that share a thread's angles

  friend constexpr bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

template <FieldsOf<RopeSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(dtype_ids)
  FLASHINFER_NAMED(interleaved)
  FLASHINFER_NAMED(has_cache)
  FLASHINFER_NAMED(has_factors)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(heads_per_thread)
}

constexpr int32_t NumThreads(const RopeSpec&) { return kRopeBlockThreads; }

constexpr int32_t SmemBytes(const RopeSpec&) { return 0; }

}  // namespace flashinfer::kernels
