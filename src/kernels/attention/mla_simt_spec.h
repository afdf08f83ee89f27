// SPDX-License-Identifier: Apache-2.0
// Latent attention on CUDA cores, in f32: what changes the kernel's code. Parameters are those of
// latent attention on tensor cores.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/attention/mla_spec.h"
#include "kernels/attention/prefill_simt_spec.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Every field changes the machine code.
struct MlaSimtSpec {
  using Params = MlaParams;
  static constexpr const char* kName = "mla.simt";
  static constexpr const char* kType = "MlaSimtSpec";
  static constexpr const char* kHeader = "kernels/attention/mla_simt_sm75.cuh";
  static constexpr const char* kNamespace = "mla_simt";
  static constexpr int kMinArch = 75;

  DType dtype_q = DType::kF32;
  DType dtype_kv = DType::kF32;
  DType dtype_out = DType::kF32;
  int32_t ckv_columns = 512;      ///< head_dim_ckv, rounded up to 16
  int32_t kpe_columns = 64;       ///< head_dim_kpe, rounded up to 16
  int32_t kv_tile = 16;           ///< 8, 16 or 32
  int32_t kv_access_bytes = 16;   ///< to which rows of the cache are aligned: 1 to 16
  int32_t q_access_bytes = 16;    ///< and those of the queries
  int32_t out_access_bytes = 16;  ///< and of the output
  int32_t scale_blocks = 0;       ///< scales of a token's ckv; 0: one for all tokens
  bool soft_cap = false;

  friend constexpr bool operator==(const MlaSimtSpec&, const MlaSimtSpec&) = default;
};

template <FieldsOf<MlaSimtSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(ckv_columns)
  FLASHINFER_NAMED(kpe_columns)
  FLASHINFER_NAMED(kv_tile)
  FLASHINFER_NAMED(kv_access_bytes)
  FLASHINFER_NAMED(q_access_bytes)
  FLASHINFER_NAMED(out_access_bytes)
  FLASHINFER_NAMED(scale_blocks)
  FLASHINFER_NAMED(soft_cap)
}

/// 4 warps share a block's rows.
constexpr int32_t NumThreads(const MlaSimtSpec&) { return 128; }
constexpr int32_t MlaRows(const MlaSimtSpec&) { return 16; }

/// f32 elements from row to row of queries and keys: ckv, then kpe.
constexpr int32_t MlaRowStride(const MlaSimtSpec& s) {
  return SimtRowStride(s.ckv_columns + s.kpe_columns);
}

/// Scales of a tile's tokens.
constexpr int32_t MlaScales(const MlaSimtSpec& s) {
  return s.kv_tile * (s.scale_blocks > 0 ? s.scale_blocks : 1);
}

/// The spec of tokens that have scales.
constexpr MlaSimtSpec WithScales(MlaSimtSpec s, int32_t scale_blocks) {
  s.scale_blocks = scale_blocks;
  return s;
}

/// Queries, a tile of keys, weights, where tokens are, their scales, maxima and sums, the work, and
/// a flag.
constexpr int32_t SmemBytes(const MlaSimtSpec& s) {
  return (MlaRows(s) + s.kv_tile) * MlaRowStride(s) * 4 +
         MlaRows(s) * SimtRowStride(s.kv_tile) * 4 + s.kv_tile * 16 + MlaScales(s) * 4 +
         s.kv_tile / 8 * MlaRows(s) * 4 + kPrefillBlockBytes + 16;
}

/// Tiles for a shape, whatever its rows; alignment and blocks of scales are the caller's. What does
/// not fit into `smem_bytes` is tiles as small as can be.
constexpr MlaSimtSpec MakeMlaSimtSpec(const MlaShape& shape) {
  MlaSimtSpec s;
  s.dtype_q = shape.dtype_q;
  s.dtype_kv = shape.dtype_kv;
  s.dtype_out = shape.dtype_out;
  s.ckv_columns = (shape.head_dim_ckv + 15) / 16 * 16;
  s.kpe_columns = (shape.head_dim_kpe + 15) / 16 * 16;
  s.kv_tile = 32;
  s.soft_cap = shape.soft_cap;
  const bool is_narrow = DecodeElementBytes(shape.dtype_kv) == 1;
  // Only Run() sees whether tokens have scales: there is room for the smallest blocks.
  const auto fits = [&s, is_narrow](int32_t bytes) {
    MlaSimtSpec scaled = s;
    if (is_narrow) scaled.scale_blocks = (s.ckv_columns + 31) / 32;
    return SmemBytes(scaled) <= bytes;
  };
  // Two blocks of a multiprocessor hide each other's waits.
  if (!fits(shape.smem_bytes / 2 - 1024)) s.kv_tile = 16;
  if (!fits(shape.smem_bytes)) s.kv_tile = 8;
  return s;
}

}  // namespace flashinfer::kernels
