// SPDX-License-Identifier: Apache-2.0
// RMSNorm and LayerNorm on CUDA cores: what changes their code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// Rows are pairs (outer, inner); strides count elements.
struct NormParams {
  const void* x;
  const void* weight;
  const void* bias;  ///< LayerNorm's
  void* residual;    ///< strides as x's, of its own
  void* out;
  const float* scale;  ///< device memory; null: 1. The output is divided by it.
  int64_t num_rows;
  int64_t num_inner;
  int64_t x_stride_outer;
  int64_t x_stride_inner;
  int64_t residual_stride_outer;
  int64_t residual_stride_inner;
  int64_t out_stride_outer;
  int64_t out_stride_inner;
  int32_t hidden_size;
  float eps;
  float weight_offset;  ///< added to weights: 1 in Gemma's norm
  float host_scale;     ///< the output is divided by it too
};

/// Every field changes the machine code.
struct NormSpec {
  using Params = NormParams;
  static constexpr const char* kName = "norm.simt";
  static constexpr const char* kType = "NormSpec";
  static constexpr const char* kHeader = "kernels/norm/norm_simt_sm75.cuh";
  static constexpr const char* kNamespace = "norm_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kBF16;         ///< of x and the residual
  DType dtype_weight = DType::kBF16;  ///< of weight and bias
  DType dtype_out = DType::kBF16;
  int32_t vector_size = 8;    ///< elements of an access: 1 to 8, a power of two
  int32_t row_threads = 512;  ///< threads of a row: 32 (several rows a block) to 1024
  int32_t num_vectors = 2;    ///< accesses of a thread: a row is kept in registers; 0: read twice
  bool centered = false;      ///< LayerNorm: the mean is subtracted, a bias added
  bool has_residual = false;  ///< x + residual is normalised, and written to the residual

  friend constexpr bool operator==(const NormSpec&, const NormSpec&) = default;
};

template <FieldsOf<NormSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_weight)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(row_threads)
  FLASHINFER_NAMED(num_vectors)
  FLASHINFER_NAMED(centered)
  FLASHINFER_NAMED(has_residual)
}

/// Short rows share a block.
constexpr int32_t NumThreads(const NormSpec& spec) {
  return spec.row_threads == 32 ? 128 : spec.row_threads;
}

/// Two sets of partial sums of warps.
constexpr int32_t SmemBytes(const NormSpec&) { return 2 * 32 * 4; }

constexpr int32_t NormRowsPerBlock(const NormSpec& s) { return NumThreads(s) / s.row_threads; }

/// The spec of `num_rows` rows of `hidden_size`; `fixed` holds its dtypes, vector size and flags.
constexpr NormSpec MakeNormSpec(const NormSpec& fixed, int64_t hidden_size, int64_t num_rows) {
  NormSpec s = fixed;
  const int64_t num_vectors = (hidden_size + s.vector_size - 1) / s.vector_size;
  // H200, 2026-11-30, 8192 bf16: of 128 rows, 256 threads with 4 accesses each take 5.5 µs, 1024
  // with one 5.7; of 8192 rows, 512 with 2 take 68 µs, 256 with 4 69, 1024 with 1 77.
  const int64_t vectors_per_thread = num_vectors <= 512                 ? 1
                                     : num_rows < 512 || s.has_residual ? 4
                                                                        : 2;
  s.row_threads = 32;
  while (s.row_threads < 1024 && s.row_threads * vectors_per_thread < num_vectors) {
    s.row_threads *= 2;
  }
  s.num_vectors = 1;
  while (int64_t{s.row_threads} * s.num_vectors < num_vectors && s.num_vectors < 64) {
    s.num_vectors *= 2;
  }
  // A thousand threads have 64 registers each: 16 values, as loaded and as f32, and weights.
  const int32_t most = s.row_threads == 1024 ? 16 : 32;
  if (s.num_vectors * s.vector_size > most) s.num_vectors = 0;
  return s;
}

/// Whether blocks walk on from row to row. With a residual a row each is faster (H200, 8192 x 8192
/// bf16: 129 µs against 136), without it walking is (68 against 83).
constexpr bool NormWalksOn(const NormSpec& s) { return !s.has_residual; }

}  // namespace flashinfer::kernels
