// SPDX-License-Identifier: Apache-2.0
// Paged decode on CUDA cores: what changes the kernel's code, what changes per call, and the list
// of work that a plan writes.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/portable.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::kernels {

/// Keys kv_begin to kv_end of a request, for every KV head alike.
struct alignas(16) DecodePiece {
  int32_t request;
  int32_t page_begin;  ///< of the request, into the page indices
  int32_t kv_begin;
  int32_t kv_end;
  int32_t partial;        ///< where its partial result goes; -1: it writes the output itself
  int32_t first_partial;  ///< of the request
  int32_t num_partials;   ///< of the request
  int32_t merge;          ///< the request's place among those that are merged
};

/// A block's pieces, the first of them at hand: a look-up less before its keys can be loaded.
struct alignas(16) DecodeSlot {
  DecodePiece first;
  int32_t num_pieces;
  int32_t first_index;  ///< into the list of pieces, where the others follow
};

/// Between pages and tokens of one cache tensor in accesses of vector_size elements, between heads
/// in elements.
struct DecodeCacheStrides {
  int64_t page;
  int64_t token;
  int64_t head;
};

/// A number for each head; null data: none.
struct DecodeHeadValues {
  const float* data;
  int64_t stride;
};

/// Block (slot, tile) works on the pieces of slots[slot]; tile / row_tiles is the KV head. Strides
/// count elements but for those of the cache.
struct DecodeParams {
  const void* q;  // [num_requests, num_qo_heads, head_dim_qk]
  const void* k;
  const void* v;
  void* out;             // [num_requests, num_qo_heads, head_dim_vo]
  float* lse;            // [num_requests, num_qo_heads], base 2; null: not wanted
  const int32_t* pages;  ///< null: one page of all tokens, in which requests begin at page_begin
  const DecodePiece* pieces;
  const DecodeSlot* slots;    // [num_slots]
  float* partial_o;           // [num_partials, num_tiles, rows_tile, DecodeColumns()], permuted
  float* partial_ml;          // [num_partials, num_tiles, rows_tile, 2]: maximum and sum
  uint32_t* counters;         // [num_merges, num_tiles], 0 between launches
  DecodeHeadValues sinks;     // [num_qo_heads]: natural logits that add to the sum
  DecodeHeadValues q_scales;  // [num_qo_heads]
  DecodeHeadValues k_scales;  // [num_kv_heads]
  DecodeHeadValues v_scales;  // [num_kv_heads]
  int64_t q_stride_request;
  int64_t q_stride_head;
  int64_t out_stride_request;
  int64_t out_stride_head;
  int64_t lse_stride_request;
  int64_t lse_stride_head;
  int64_t pages_stride;
  DecodeCacheStrides k_strides;
  DecodeCacheStrides v_strides;
  Divisor page_size;
  int32_t head_dim_qk;
  int32_t head_dim_vo;
  int32_t group_size;
  int32_t row_tiles;  ///< of a KV head: ceil(group_size / rows_tile)
  float sm_scale;     ///< times scales of queries and keys
  float v_scale;      ///< beside v_scales
  float soft_cap;
  int32_t is_packed;  ///< rows of q begin at multiples of 4 bytes, those of out of 4 elements
};

/// Every field changes the machine code.
struct DecodeSpec {
  using Params = DecodeParams;
  static constexpr const char* kName = "decode.simt";
  static constexpr const char* kType = "DecodeSpec";
  static constexpr const char* kHeader = "kernels/attention/decode_simt_sm75.cuh";
  static constexpr const char* kNamespace = "decode_simt";
  static constexpr int kMinArch = 75;

  DType dtype_q = DType::kBF16;
  DType dtype_kv = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int32_t vector_size = 8;   ///< elements of an access to the cache
  int32_t token_lanes = 16;  ///< lanes of a token: a power of two, 8 to 32
  int32_t qk_accesses = 1;   ///< of a lane to a token's key
  int32_t vo_accesses = 1;   ///< of a lane to a token's value
  int32_t rows_tile = 8;     ///< query heads of a block: 1, 2, 4 or 8
  int32_t tokens_tile = 4;   ///< tokens of a group of lanes per stage: 1, 2, 4 or 8
  int32_t num_stages = 3;    ///< depth of the copy ring
  bool soft_cap = false;
  bool wide_strides = false;  ///< the cache spans 2^32 accesses (64 GB) or more

  friend constexpr bool operator==(const DecodeSpec&, const DecodeSpec&) = default;
};

template <FieldsOf<DecodeSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(token_lanes)
  FLASHINFER_NAMED(qk_accesses)
  FLASHINFER_NAMED(vo_accesses)
  FLASHINFER_NAMED(rows_tile)
  FLASHINFER_NAMED(tokens_tile)
  FLASHINFER_NAMED(num_stages)
  FLASHINFER_NAMED(soft_cap)
  FLASHINFER_NAMED(wide_strides)
}

inline constexpr int32_t kDecodeThreads = 128;
inline constexpr int32_t kDecodeWarps = kDecodeThreads / 32;

/// A user's variant may be compiled into it.
constexpr bool TakesVariants(const DecodeSpec&) { return true; }

constexpr int32_t NumThreads(const DecodeSpec&) { return kDecodeThreads; }

/// Blocks of a multiprocessor for which registers are kept free: 168 of a thread or 128. 64 outputs
/// of a thread in 128 would spill (H200, 64 requests of 8192 keys: 707 µs against 604), and two
/// blocks hide less (635).
constexpr int32_t MinBlocksPerSm(const DecodeSpec& s) {
  return s.rows_tile * s.vo_accesses * s.vector_size >= 64 ? 3 : 4;
}

constexpr int32_t DecodeElementBytes(DType dtype) {
  return dtype == DType::kF32 ? 4 : dtype == DType::kF16 || dtype == DType::kBF16 ? 2 : 1;
}

/// Tokens that a block works on at a time.
constexpr int32_t DecodeKvTile(const DecodeSpec& s) {
  return kDecodeThreads / s.token_lanes * s.tokens_tile;
}

constexpr int32_t DecodeStageBytes(const DecodeSpec& s) {
  return kDecodeThreads * s.tokens_tile * (s.qk_accesses + s.vo_accesses) * s.vector_size *
         DecodeElementBytes(s.dtype_kv);
}

/// Values of a head that a warp's lanes hold: head_dim_vo, rounded up.
constexpr int32_t DecodeColumns(const DecodeSpec& s) {
  return s.token_lanes * s.vo_accesses * s.vector_size;
}

/// Floats of an access to shared memory.
constexpr int32_t DecodePart(const DecodeSpec& s) { return s.vector_size < 4 ? s.vector_size : 4; }

/// The copy ring, which the merge of warps uses after it.
constexpr int32_t DecodeRingBytes(const DecodeSpec& s) {
  const int32_t ring = s.num_stages * DecodeStageBytes(s);
  const int32_t merge = kDecodeThreads * s.rows_tile * s.vo_accesses * s.vector_size * 4;
  return ring > merge ? ring : merge;
}

/// The ring, the queries as f32, probabilities and rescale factors of each warp, its maxima and
/// sums, and a flag.
constexpr int32_t SmemBytes(const DecodeSpec& s) {
  const int32_t tokens = 32 / s.token_lanes * s.tokens_tile;
  const int32_t query = s.token_lanes * s.qk_accesses * s.vector_size;
  return DecodeRingBytes(s) + (query + kDecodeWarps * (tokens + 1 + 2)) * s.rows_tile * 4 + 16;
}

/// What decides the spec of a decode.
struct DecodeShape {
  DType dtype_q;
  DType dtype_kv;
  DType dtype_out;
  int32_t head_dim_qk;
  int32_t head_dim_vo;
  int32_t group_size;
  int32_t access_bytes;  ///< to which all rows of the cache are aligned
  bool soft_cap;
  int32_t arch;
};

constexpr DecodeSpec MakeDecodeSpec(const DecodeShape& shape) {
  DecodeSpec s;
  s.dtype_q = shape.dtype_q;
  s.dtype_kv = shape.dtype_kv;
  s.dtype_out = shape.dtype_out;
  s.soft_cap = shape.soft_cap;
  const int32_t element = DecodeElementBytes(shape.dtype_kv);
  // More than 8 elements an access would take more registers than they save instructions.
  s.vector_size = shape.access_bytes / element;
  if (s.vector_size > 8) s.vector_size = 8;
  const int32_t widest =
      shape.head_dim_qk > shape.head_dim_vo ? shape.head_dim_qk : shape.head_dim_vo;
  s.token_lanes = 8;
  while (s.token_lanes < 32 && s.token_lanes * s.vector_size < widest) s.token_lanes *= 2;
  const int32_t line = s.token_lanes * s.vector_size;
  s.qk_accesses = (shape.head_dim_qk + line - 1) / line;
  s.vo_accesses = (shape.head_dim_vo + line - 1) / line;
  const int32_t most = s.qk_accesses > s.vo_accesses ? s.qk_accesses : s.vo_accesses;
  s.rows_tile = 1;
  while (s.rows_tile < 8 && s.rows_tile < shape.group_size &&
         2 * s.rows_tile * most * s.vector_size <= 64) {
    s.rows_tile *= 2;
  }
  // About 16 KB a stage: three blocks of an SM then have 96 KB on their way. More than 32 scores
  // and 64 values of keys would not fit into registers beside the outputs.
  s.tokens_tile = 8;
  while (s.tokens_tile > 1 &&
         (DecodeStageBytes(s) > 16384 || s.tokens_tile * s.qk_accesses * s.vector_size > 64 ||
          s.tokens_tile * s.rows_tile > 32)) {
    s.tokens_tile /= 2;
  }
  // Bound by multiply-adds, the warps wait for each other's copies less with 48 KB; bound by bytes,
  // 32 KB are better (H200, 2026-11-30: groups of 8 604 against 632 µs, of 4 262 against 254).
  const int32_t ring = s.rows_tile == 8 ? 49152 : 32768;
  s.num_stages = shape.arch < 80 ? 2 : ring / DecodeStageBytes(s);
  if (s.num_stages < 2) s.num_stages = 2;
  if (s.num_stages > 6) s.num_stages = 6;
  return s;
}

}  // namespace flashinfer::kernels
