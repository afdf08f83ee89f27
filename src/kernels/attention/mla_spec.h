// SPDX-License-Identifier: Apache-2.0
// Latent attention on tensor cores: what changes the kernel's code, and what changes per call. Its
// work is cut into the pieces of prefill.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/attention/prefill_spec.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Block `piece`. Strides count elements.
struct MlaParams {
  /// q is q_nope, k is ckv, v is kpe; group_size is num_heads, head_dim_vo that of ckv, and
  /// partial_o [num_partials, rows_tile, ckv_columns].
  PrefillParams attention;
  const void* q_pe;         // [num_tokens, num_heads, head_dim_kpe]
  const float* ckv_scales;  // [num_pages, page_size, scale_blocks]
  int64_t q_pe_stride_token;
  int64_t q_pe_stride_head;
  int64_t scales_stride_page;
  int64_t scales_stride_token;
  int64_t scales_stride_block;
  int32_t head_dim_kpe;
  float kpe_over_ckv;  ///< scale of kpe by that of ckv, which sm_scale has
  float q_sign;        ///< that of sm_scale: 1 or -1
};

/// Every field changes the machine code.
struct MlaSpec {
  using Params = MlaParams;
  static constexpr const char* kName = "mla.mma";
  static constexpr const char* kType = "MlaSpec";
  static constexpr const char* kHeader = "kernels/attention/mla_mma_sm75.cuh";
  static constexpr const char* kNamespace = "mla_mma";
  static constexpr int kMinArch = 75;

  DType dtype_q = DType::kBF16;   ///< f16 or bf16: what is multiplied
  DType dtype_kv = DType::kBF16;  ///< dtype_q, e4m3, e5m2 or i8
  DType dtype_out = DType::kBF16;
  int32_t ckv_columns = 512;      ///< head_dim_ckv, rounded up to 16
  int32_t kpe_columns = 64;       ///< head_dim_kpe, rounded up to 16
  int32_t row_warps = 1;          ///< warps side by side along the rows
  int32_t row_tiles = 1;          ///< tiles of 16 rows of a warp: 1 or 2
  int32_t column_warps = 4;       ///< warps that share rows: each has columns of values, and keys
  int32_t part_warps = 1;         ///< of these, warps that share keys: each has columns of queries
  bool score_warps = false;       ///< scores have as many warps of their own; more than 2 stages
  int32_t kv_tile = 32;           ///< 16, 32 or 64
  int32_t num_stages = 2;         ///< tiles of keys in shared memory: 2, or 3 to 8 of 16 rows
  int32_t raw_stages = 0;         ///< and of keys of 8 bits as they are: 2 to 8; 0: none
  int32_t kv_access_bytes = 16;   ///< to which rows of the cache are aligned: 1 to 16
  int32_t q_access_bytes = 16;    ///< and those of the queries
  int32_t out_access_bytes = 16;  ///< and of the output
  int32_t scale_blocks = 0;       ///< scales of a token's ckv; 0: one for all tokens
  bool soft_cap = false;

  friend constexpr bool operator==(const MlaSpec&, const MlaSpec&) = default;
};

template <FieldsOf<MlaSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(ckv_columns)
  FLASHINFER_NAMED(kpe_columns)
  FLASHINFER_NAMED(row_warps)
  FLASHINFER_NAMED(row_tiles)
  FLASHINFER_NAMED(column_warps)
  FLASHINFER_NAMED(part_warps)
  FLASHINFER_NAMED(score_warps)
  FLASHINFER_NAMED(kv_tile)
  FLASHINFER_NAMED(num_stages)
  FLASHINFER_NAMED(raw_stages)
  FLASHINFER_NAMED(kv_access_bytes)
  FLASHINFER_NAMED(q_access_bytes)
  FLASHINFER_NAMED(out_access_bytes)
  FLASHINFER_NAMED(scale_blocks)
  FLASHINFER_NAMED(soft_cap)
}

/// bf16 products need SM80.
constexpr int32_t MinArch(const MlaSpec& s) {
  return s.dtype_q == DType::kBF16 ? 80 : MlaSpec::kMinArch;
}

constexpr int32_t NumThreads(const MlaSpec& s) {
  return 32 * s.row_warps * s.column_warps * (s.score_warps ? 2 : 1);
}

/// Rows of a block: heads of query tokens.
constexpr int32_t MlaRows(const MlaSpec& s) { return 16 * s.row_warps * s.row_tiles; }

/// Elements from row to row of queries and keys: ckv, then kpe.
constexpr int32_t MlaRowStride(const MlaSpec& s) {
  return PrefillRowStride(s.ckv_columns + s.kpe_columns);
}

/// Values of ckv that a warp has outputs of.
constexpr int32_t MlaWarpColumns(const MlaSpec& s) {
  return (s.ckv_columns / 16 + s.column_warps - 1) / s.column_warps * 16;
}

/// Whether scores are computed a tile ahead of weights, and all warps make all weights of it: for
/// few rows, where waits for each other cost more than exponentials.
constexpr bool MlaIsAhead(const MlaSpec& s) { return s.num_stages > 2; }

/// Warps that share a tile's keys when scores are computed: each has 8 or more.
constexpr int32_t MlaKeyWarps(const MlaSpec& s) {
  const int32_t warps = s.column_warps / s.part_warps;
  return s.kv_tile / 8 < warps ? s.kv_tile / 8 : warps;
}

/// Outputs finer than what is multiplied take weights as two values that add up to them.
constexpr int32_t MlaWeightParts(const MlaSpec& s) {
  return s.dtype_out == DType::kF32 || (s.dtype_out == DType::kF16 && s.dtype_q == DType::kBF16)
             ? 2
             : 1;
}

/// Whether weights take the place of the tile's kpe, which is of no use once there are scores.
constexpr bool MlaWeightsInKeys(const MlaSpec& s) {
  return MlaWeightParts(s) * s.kv_tile <= s.kpe_columns && MlaRows(s) <= s.kv_tile;
}

/// Elements of queries that have a place of their own: ahead, they lie in registers.
constexpr int32_t MlaQueryElements(const MlaSpec& s) {
  return MlaIsAhead(s) ? 8 : MlaRows(s) * MlaRowStride(s);
}

/// Elements of weights that have a place of their own; ahead, of the scores of two tiles.
constexpr int32_t MlaWeightElements(const MlaSpec& s) {
  if (MlaIsAhead(s)) return 2 * 2 * s.part_warps * MlaRows(s) * s.kv_tile;
  return MlaWeightsInKeys(s) ? 8 : MlaWeightParts(s) * MlaRows(s) * PrefillRowStride(s.kv_tile);
}

/// Scales of a tile's tokens.
constexpr int32_t MlaScales(const MlaSpec& s) {
  return s.kv_tile * (s.scale_blocks > 0 ? s.scale_blocks : 1);
}

/// Tiles of keys that are on their way, or there as they came.
constexpr int32_t MlaCopyStages(const MlaSpec& s) {
  return s.raw_stages > 0 ? s.raw_stages : s.num_stages;
}

/// Bytes of a tile of keys as they are, where these have a place of their own.
constexpr int32_t MlaRawBytes(const MlaSpec& s) {
  return s.raw_stages > 0 ? s.kv_tile * (s.ckv_columns + s.kpe_columns) : 16;
}

/// Queries, stages of keys, weights, and of the stages on their way: keys as they are, where tokens
/// are, scales; then maxima and sums, the work, and a flag.
constexpr int32_t SmemBytes(const MlaSpec& s) {
  return (MlaQueryElements(s) + s.num_stages * s.kv_tile * MlaRowStride(s) + MlaWeightElements(s)) *
             2 +
         MlaCopyStages(s) * (MlaRawBytes(s) + s.kv_tile * 16 + MlaScales(s) * 4) +
         MlaKeyWarps(s) * MlaRows(s) * 4 + kPrefillBlockBytes + 16;
}

/// The spec of tokens that have scales, with the same tiles. Where keys would be converted in
/// shared memory they are on their way: scores and weights take scales on, as keys would be rounded
/// once more.
constexpr MlaSpec WithScales(MlaSpec s, int32_t scale_blocks) {
  if (s.raw_stages > 0) {
    s.raw_stages = 0;
    s.num_stages = 2;
    s.column_warps = 4;
    s.part_warps = 1;
    s.score_warps = false;
  }
  s.scale_blocks = scale_blocks;
  return s;
}

/// What decides the spec of a batch, of its lengths.
struct MlaBatch {
  int64_t rows;      ///< of a request, on average: its heads times tokens
  int64_t requests;  ///< 0: the spec must be that of any batch
};

struct MlaShape {
  DType dtype_q;
  DType dtype_kv;
  DType dtype_out;
  int32_t head_dim_ckv;
  int32_t head_dim_kpe;
  MlaBatch batch;
  int32_t smem_bytes;  ///< that a block may have
  bool soft_cap;
};

/// Rows of a batch up to which tiles of 16 rows for few are faster than others; up to twice as many
/// all of 16 rows are faster than larger ones. H200, 2026-12-01, keys of 8192 tokens, µs: 256 rows
/// 54 against 56, and 100 to 110 of 64 rows; 384 rows 92 against 72; 512 rows 94, 87, 100; 1024
/// rows 175, 155, 121. Of 512 to 2048 keys, tiles for few are 2 to 4 µs faster up to 2048 rows.
inline constexpr int64_t kMlaFewRows = 256;

/// Tiles of up to 16 rows. Caches of 8 bits have as many stages of keys as they are, and
/// kMlaConvertedStages of what is multiplied.
struct MlaAheadTiles {
  bool is_for_few;  ///< of batches of up to kMlaFewRows, of which a multiprocessor has few
  int32_t column_warps;
  int32_t part_warps;
  int32_t kv_tile;
  int32_t num_stages;
};
inline constexpr int32_t kMlaConvertedStages = 3;

/// The first that fits: 160 KB of shared memory, 80 twice a multiprocessor, 61; of 8 bits 197, 99,
/// 89.
inline constexpr MlaAheadTiles kMlaAheadTiles[] = {
    {true, 8, 2, 32, 4}, {false, 4, 2, 16, 4}, {false, 4, 2, 16, 3}};

/// Columns of queries that a warp holds, in steps of 16: those of kpe come first, and with one
/// warp.
constexpr int32_t MlaPartSteps(const MlaSpec& s) {
  return ((s.ckv_columns + s.kpe_columns) / 16 + s.part_warps - 1) / s.part_warps;
}
constexpr bool MlaCanBeAhead(const MlaSpec& s) { return s.kpe_columns / 16 <= MlaPartSteps(s); }

/// What a shape says whatever the tiles are.
constexpr MlaSpec MlaSpecOf(const MlaShape& shape) {
  MlaSpec s;
  s.dtype_q = shape.dtype_q;
  s.dtype_kv = shape.dtype_kv;
  s.dtype_out = shape.dtype_out;
  s.ckv_columns = (shape.head_dim_ckv + 15) / 16 * 16;
  s.kpe_columns = (shape.head_dim_kpe + 15) / 16 * 16;
  s.soft_cap = shape.soft_cap;
  return s;
}

constexpr bool MlaIsNarrow(const MlaSpec& s) { return DecodeElementBytes(s.dtype_kv) == 1; }

/// Whether a block has room. Only Run() sees whether tokens have scales: the smallest blocks fit.
constexpr bool MlaFits(const MlaSpec& s, int32_t smem_bytes) {
  return SmemBytes(s) <= smem_bytes &&
         (!MlaIsNarrow(s) || SmemBytes(WithScales(s, (s.ckv_columns + 31) / 32)) <= smem_bytes);
}

/// Puts the first tiles of 16 rows that fit into `s`, if there are any.
constexpr bool SetAheadTiles(const MlaShape& shape, bool has_few_rows, MlaSpec& s) {
  for (const MlaAheadTiles& tiles : kMlaAheadTiles) {
    if (tiles.is_for_few && !has_few_rows) continue;
    MlaSpec ahead = s;
    ahead.column_warps = tiles.column_warps;
    ahead.part_warps = tiles.part_warps;
    ahead.score_warps = true;
    ahead.kv_tile = tiles.kv_tile;
    ahead.num_stages = MlaIsNarrow(s) ? kMlaConvertedStages : tiles.num_stages;
    ahead.raw_stages = MlaIsNarrow(s) ? tiles.num_stages : 0;
    if (!MlaCanBeAhead(ahead) || !MlaFits(ahead, shape.smem_bytes)) continue;
    s = ahead;
    return true;
  }
  return false;
}

/// Tiles for a shape; alignment and blocks of scales are the caller's. What does not fit into
/// `smem_bytes` is tiles as small as can be.
constexpr MlaSpec MakeMlaSpec(const MlaShape& shape) {
  MlaSpec s = MlaSpecOf(shape);
  const int64_t rows = shape.batch.rows;
  const bool has_few_rows = shape.batch.requests > 0 && rows * shape.batch.requests <= kMlaFewRows;
  const bool has_some_rows =
      shape.batch.requests > 0 && rows * shape.batch.requests <= 2 * kMlaFewRows;
  if ((rows <= 16 || has_some_rows) && SetAheadTiles(shape, has_few_rows, s)) return s;
  const auto fits = [&s](int32_t bytes) { return MlaFits(s, bytes); };
  // 64 rows: 8 warps with 128 outputs of each thread, which fill the registers. Up to 16 rows, two
  // blocks of a multiprocessor hide each other's waits where they fit.
  s.row_tiles = rows > 16 ? 2 : 1;
  // Of 8 bits, 8 warps convert faster than 4 even where half of the rows are missing: 128 requests
  // of 4096 keys and 32 heads in 339 µs against 399.
  s.row_warps = rows > (MlaIsNarrow(s) ? 16 : 32) ? 2 : 1;
  s.kv_tile = 32;
  if (MlaIsNarrow(s) && rows > 16) {
    s.raw_stages = 2;
    if (fits(shape.smem_bytes)) return s;
    s.raw_stages = 0;
  }
  if (rows > 16 || !fits(shape.smem_bytes / 2 - 1024)) s.kv_tile = 64;
  while (!fits(shape.smem_bytes) && s.kv_tile > 32) s.kv_tile /= 2;
  if (!fits(shape.smem_bytes)) s.row_warps = 1;
  while (!fits(shape.smem_bytes) && s.kv_tile > 16) s.kv_tile /= 2;
  if (!fits(shape.smem_bytes)) s.row_tiles = 1;
  return s;
}

}  // namespace flashinfer::kernels
