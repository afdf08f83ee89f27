// SPDX-License-Identifier: Apache-2.0
// Prefill on CUDA cores, in f32: what changes the kernel's code. Parameters and work are those of
// prefill on tensor cores.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/attention/prefill_spec.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Every field changes the machine code.
struct PrefillSimtSpec {
  using Params = PrefillParams;
  static constexpr const char* kName = "prefill.simt";
  static constexpr const char* kType = "PrefillSimtSpec";
  static constexpr const char* kHeader = "kernels/attention/prefill_simt_sm75.cuh";
  static constexpr const char* kNamespace = "prefill_simt";
  static constexpr int kMinArch = 75;

  DType dtype_q = DType::kF32;
  DType dtype_kv = DType::kF32;
  DType dtype_out = DType::kF32;
  int32_t qk_columns = 128;  ///< head_dim_qk, rounded up to 16
  int32_t vo_columns = 128;  ///< of a block: head_dim_vo or a slice of it, rounded up to 16
  int32_t vo_slices = 1;
  int32_t num_warps = 4;          ///< of 16 rows each
  int32_t kv_tile = 32;           ///< 8, 16 or 32
  int32_t kv_access_bytes = 16;   ///< to which rows of the cache are aligned: 1 to 16
  int32_t q_access_bytes = 16;    ///< and those of the queries
  int32_t out_access_bytes = 16;  ///< and of the output
  int32_t mask = kMaskPlain;
  bool has_bias = false;
  DType dtype_bias = DType::kF32;
  bool alibi = false;
  bool rope = false;
  bool soft_cap = false;

  friend constexpr bool operator==(const PrefillSimtSpec&, const PrefillSimtSpec&) = default;
};

template <FieldsOf<PrefillSimtSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  ForEachPrefillField(self, visit);
}

/// A user's variant may be compiled into it.
constexpr bool TakesVariants(const PrefillSimtSpec&) { return true; }

constexpr int32_t NumThreads(const PrefillSimtSpec& s) { return 32 * s.num_warps; }

/// Rows of a block.
constexpr int32_t PrefillRows(const PrefillSimtSpec& s) { return 16 * s.num_warps; }

/// f32 elements from row to row in shared memory: an odd number of 16-byte units.
constexpr int32_t SimtRowStride(int32_t columns) { return columns + 4; }

/// Queries and a tile of keys and values, behind them in the same place outputs; weights, where the
/// tile's tokens are, scales of rows, the work, and a flag.
constexpr int32_t SmemBytes(const PrefillSimtSpec& s) {
  const int32_t inputs = (PrefillRows(s) * SimtRowStride(s.qk_columns) +
                          s.kv_tile * (SimtRowStride(s.qk_columns) + SimtRowStride(s.vo_columns))) *
                         4;
  const int32_t outputs = PrefillOutputBytes(s);
  return (inputs > outputs ? inputs : outputs) + PrefillRows(s) * SimtRowStride(s.kv_tile) * 4 +
         s.kv_tile * 16 + PrefillRows(s) * 4 + kPrefillBlockBytes + 16;
}

/// Tiles for a shape; alignment, masks and what is done to scores are the caller's.
constexpr PrefillSimtSpec MakePrefillSimtSpec(const PrefillShape& shape) {
  auto s = PrefillSpecOf<PrefillSimtSpec>(shape);
  const auto does_not_fit = [&s](int32_t bytes) { return SmemBytes(s) > bytes; };
  // Two blocks of a multiprocessor hide each other's waits.
  while (does_not_fit(shape.smem_bytes / 2 - 1024) && s.kv_tile > 16) s.kv_tile /= 2;
  while (does_not_fit(shape.smem_bytes) && s.num_warps > 1) s.num_warps /= 2;
  while (does_not_fit(shape.smem_bytes) && s.kv_tile > 8) s.kv_tile /= 2;
  SliceToFit(s, shape.smem_bytes);
  // Behind the rest: no other tile may depend on the batch.
  while (s.num_warps > 1 && PrefillRows(s) / 2 >= shape.rows) s.num_warps /= 2;
  return s;
}

}  // namespace flashinfer::kernels
