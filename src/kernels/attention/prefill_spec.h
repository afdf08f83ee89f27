// SPDX-License-Identifier: Apache-2.0
// Prefill on tensor cores: what changes the kernel's code, what changes per call, and the work
// that a plan writes.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/attention/decode_spec.h"
#include "kernels/portable.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::kernels {

/// Rows row_begin to row_begin + rows_tile of a request times keys kv_begin to kv_end, for every KV
/// head alike. Row r is query head r % group_size of the KV head's group, of token r / group_size.
struct alignas(16) PrefillPiece {
  int32_t request;
  int32_t row_begin;
  int32_t kv_begin;  ///< a multiple of kv_tile
  int32_t kv_end;
  int32_t partial;        ///< where its partial result goes; -1: it writes the output itself
  int32_t first_partial;  ///< of these rows
  int32_t num_partials;   ///< of these rows
  int32_t merge;          ///< the rows' place among those that are merged
};

struct alignas(16) PrefillRequest {
  int64_t mask_begin;  ///< into the custom mask, elements or bytes
  int32_t q_begin;     ///< row of q
  int32_t q_len;
  int32_t kv_len;
  int32_t page_begin;  ///< into the page indices; without pages, a token
  int32_t prefix_len;  ///< multi-item masks
  int32_t unused;
};

/// Block (piece, tile): tile / vo_slices is the KV head, tile % vo_slices the columns of values.
/// Strides count elements.
struct PrefillParams {
  const void* q;  // [num_tokens, num_qo_heads, head_dim_qk]
  const void* k;
  const void* v;
  void* out;             // [num_tokens, num_qo_heads, head_dim_vo]
  float* lse;            // [num_tokens, num_qo_heads], base 2; null: not wanted
  const int32_t* pages;  ///< null: one page of all tokens, in which requests begin at page_begin
  const PrefillRequest* requests;
  const PrefillPiece* pieces;
  float* partial_o;           // [num_partials, num_tiles, rows_tile, vo_columns]
  float* partial_ml;          // [num_partials, num_tiles, rows_tile, 2]: maximum and sum
  uint32_t* counters;         // [num_merges, num_tiles], 0 between launches
  const void* custom_mask;    ///< bool, or bits when mask_is_packed
  const int32_t* token_pos;   // [num_requests, …]: multi-item masks
  const void* bias;           // [num_qo_heads, num_tokens, …]
  DecodeHeadValues sinks;     // [num_qo_heads]: natural logits that add to the sum
  DecodeHeadValues q_scales;  // [num_qo_heads]
  DecodeHeadValues k_scales;  // [num_kv_heads]
  DecodeHeadValues v_scales;  // [num_kv_heads]
  DecodeHeadValues slopes;    // [num_qo_heads]: ALiBi
  const uint64_t* turns;      // [head_dim_qk / 2]: of a position, in 2^-64: RoPE
  int64_t q_stride_token;
  int64_t q_stride_head;
  int64_t out_stride_token;
  int64_t out_stride_head;
  int64_t lse_stride_token;
  int64_t lse_stride_head;
  int64_t pages_stride;
  int64_t token_pos_stride_request;
  int64_t token_pos_stride_token;
  int64_t bias_stride_head;
  int64_t bias_stride_token;
  DecodeCacheStrides k_strides;
  DecodeCacheStrides v_strides;
  Divisor page_size;
  Divisor group_size;
  int32_t head_dim_qk;
  int32_t head_dim_vo;
  int32_t window_left;  ///< -1: all
  float sm_scale;       ///< times scales of queries and keys
  float v_scale;        ///< beside v_scales
  float soft_cap;
  bool causal;
  bool mask_is_packed;
};

/// Masks that are code of their own; causal ones and windows are always there.
inline constexpr int32_t kMaskPlain = 0;
inline constexpr int32_t kMaskCustom = 1;
inline constexpr int32_t kMaskMultiItem = 2;

/// Every field changes the machine code.
struct PrefillSpec {
  using Params = PrefillParams;
  static constexpr const char* kName = "prefill.mma";
  static constexpr const char* kType = "PrefillSpec";
  static constexpr const char* kHeader = "kernels/attention/prefill_mma_sm75.cuh";
  static constexpr const char* kNamespace = "prefill_mma";
  static constexpr int kMinArch = 75;

  DType dtype_q = DType::kBF16;
  DType dtype_kv = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int32_t qk_columns = 128;  ///< head_dim_qk, rounded up to 16
  int32_t vo_columns = 128;  ///< of a block: head_dim_vo or a slice of it, rounded up to 16
  int32_t vo_slices = 1;
  int32_t num_warps = 4;
  int32_t row_tiles = 2;          ///< tiles of 16 rows of a warp: 1 or 2
  int32_t kv_tile = 64;           ///< 16, 32 or 64
  int32_t kv_access_bytes = 16;   ///< to which rows of the cache are aligned: 1 to 16
  int32_t q_access_bytes = 16;    ///< and those of the queries
  int32_t out_access_bytes = 16;  ///< and of the output
  int32_t mask = kMaskPlain;
  bool has_bias = false;
  DType dtype_bias = DType::kF32;
  bool alibi = false;
  bool rope = false;
  bool soft_cap = false;
  bool row_scales = false;  ///< heads have scales of their own, or the scale is not positive

  friend constexpr bool operator==(const PrefillSpec&, const PrefillSpec&) = default;
};

/// Prefill on CUDA cores has the same fields but for two.
template <class Self, class Visit>
constexpr void ForEachPrefillField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(qk_columns)
  FLASHINFER_NAMED(vo_columns)
  FLASHINFER_NAMED(vo_slices)
  FLASHINFER_NAMED(num_warps)
  if constexpr (requires { self.row_tiles; }) FLASHINFER_NAMED(row_tiles)
  FLASHINFER_NAMED(kv_tile)
  FLASHINFER_NAMED(kv_access_bytes)
  FLASHINFER_NAMED(q_access_bytes)
  FLASHINFER_NAMED(out_access_bytes)
  FLASHINFER_NAMED(mask)
  FLASHINFER_NAMED(has_bias)
  FLASHINFER_NAMED(dtype_bias)
  FLASHINFER_NAMED(alibi)
  FLASHINFER_NAMED(rope)
  FLASHINFER_NAMED(soft_cap)
  if constexpr (requires { self.row_scales; }) FLASHINFER_NAMED(row_scales)
}

template <FieldsOf<PrefillSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  ForEachPrefillField(self, visit);
}

/// A user's variant may be compiled into it.
constexpr bool TakesVariants(const PrefillSpec&) { return true; }

constexpr int32_t NumThreads(const PrefillSpec& s) { return 32 * s.num_warps; }

/// Rows of a block.
constexpr int32_t PrefillRows(const PrefillSpec& s) { return 16 * s.num_warps * s.row_tiles; }

/// What is multiplied: queries that are f16, or as exact in it as two of it, else bf16.
constexpr DType PrefillComputeDType(DType dtype_q) {
  return dtype_q == DType::kBF16 ? DType::kBF16 : DType::kF16;
}

/// bf16 products need SM80.
constexpr int32_t MinArch(const PrefillSpec& s) {
  return PrefillComputeDType(s.dtype_q) == DType::kBF16 ? 80 : PrefillSpec::kMinArch;
}

/// f32 queries are two f16 that add up to them.
constexpr int32_t PrefillQueryParts(const PrefillSpec& s) {
  return s.dtype_q == DType::kF32 ? 2 : 1;
}

/// Elements from row to row in shared memory: an odd number of 16-byte units, so that the rows of a
/// matrix lie in different banks.
constexpr int32_t PrefillRowStride(int32_t columns) { return columns + 8; }

constexpr int32_t PrefillQueryBytes(const PrefillSpec& s) {
  return PrefillQueryParts(s) * PrefillRows(s) * PrefillRowStride(s.qk_columns) * 2;
}

/// Keys and values of a tile.
constexpr int32_t PrefillStageBytes(const PrefillSpec& s) {
  return s.kv_tile * (PrefillRowStride(s.qk_columns) + PrefillRowStride(s.vo_columns)) * 2;
}

/// What a block knows of its work: a piece, a request and six numbers.
inline constexpr int32_t kPrefillBlockBytes = 96;

/// f32 elements from row to row where outputs are put for their stores: a row's sums of values,
/// its maximum and its sum of weights.
constexpr int32_t PrefillOutputStride(int32_t vo_columns) { return vo_columns + 4; }

template <class Spec>
constexpr int32_t PrefillOutputBytes(const Spec& s) {
  return PrefillRows(s) * PrefillOutputStride(s.vo_columns) * 4;
}

/// Queries and two stages of keys and values, behind them in the same place outputs; where tokens
/// are, two of each thread, scales of rows, the work, and a flag.
constexpr int32_t SmemBytes(const PrefillSpec& s) {
  const int32_t inputs = PrefillQueryBytes(s) + 2 * PrefillStageBytes(s);
  const int32_t outputs = PrefillOutputBytes(s);
  return (inputs > outputs ? inputs : outputs) + 2 * NumThreads(s) * 16 + PrefillRows(s) * 4 +
         kPrefillBlockBytes + 16;
}

/// What decides the spec of a prefill.
struct PrefillShape {
  DType dtype_q;
  DType dtype_kv;
  DType dtype_out;
  int32_t head_dim_qk;
  int32_t head_dim_vo;
  int64_t rows;        ///< of a request and KV head, on average
  int32_t smem_bytes;  ///< that a block may have
};

/// Columns for a shape; as many slices as make them at most 256.
template <class Spec>
constexpr Spec PrefillSpecOf(const PrefillShape& shape) {
  Spec s;
  s.dtype_q = shape.dtype_q;
  s.dtype_kv = shape.dtype_kv;
  s.dtype_out = shape.dtype_out;
  s.qk_columns = (shape.head_dim_qk + 15) / 16 * 16;
  // Outputs of 16 rows live in registers: half a value a column and lane.
  s.vo_slices = (shape.head_dim_vo + 255) / 256;
  s.vo_columns = ((shape.head_dim_vo + s.vo_slices - 1) / s.vo_slices + 15) / 16 * 16;
  return s;
}

/// More and narrower slices, where shared memory has no room else.
template <class Spec>
constexpr void SliceToFit(Spec& s, int32_t smem_bytes) {
  while (SmemBytes(s) > smem_bytes && s.vo_columns > 64) {
    s.vo_slices *= 2;
    s.vo_columns = (s.vo_columns / 2 + 15) / 16 * 16;
  }
}

/// Tiles for a shape; alignment, masks and what is done to scores are the caller's.
constexpr PrefillSpec MakePrefillSpec(const PrefillShape& shape) {
  auto s = PrefillSpecOf<PrefillSpec>(shape);
  s.row_tiles = s.vo_columns <= 128 && shape.rows > 64 ? 2 : 1;
  s.num_warps = s.vo_columns > 128 && shape.rows > 64 ? 8 : 4;
  const auto does_not_fit = [&s](int32_t bytes) { return SmemBytes(s) > bytes; };
  // Two blocks of a multiprocessor hide each other's waits; 8 warps have its registers alone, and
  // share what they copy. H200, 2026-11-30, causal 16k, TFLOP/s: of 16/8/256 329, two blocks of 4
  // 211; of 32/8/128 397 and 372, full 8k 386 and 374; of 64/8/64 320 and 323.
  if (s.row_tiles == 2 && s.vo_columns > 64 && shape.rows > 128) {
    s.num_warps = 8;
    if (does_not_fit(shape.smem_bytes)) s.num_warps = 4;
  }
  const int32_t share = s.num_warps == 8 ? shape.smem_bytes : shape.smem_bytes / 2 - 1024;
  while (does_not_fit(share) && s.kv_tile > 32) s.kv_tile /= 2;
  while (does_not_fit(shape.smem_bytes) && s.row_tiles > 1) s.row_tiles /= 2;
  while (does_not_fit(shape.smem_bytes) && s.num_warps > 1) s.num_warps /= 2;
  while (does_not_fit(shape.smem_bytes) && s.kv_tile > 16) s.kv_tile /= 2;
  SliceToFit(s, shape.smem_bytes);
  return s;
}

}  // namespace flashinfer::kernels
