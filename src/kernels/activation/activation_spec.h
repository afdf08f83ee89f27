// SPDX-License-Identifier: Apache-2.0
// Gated activations on CUDA cores: what changes their code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/portable.h"

namespace flashinfer::kernels {

/// What the gate goes through: x · sigmoid(x), GELU by the normal distribution, its approximation.
inline constexpr int32_t kGateSilu = 0;
inline constexpr int32_t kGateGelu = 1;
inline constexpr int32_t kGateGeluTanh = 2;

/// Block (t, c) takes columns of token t from c · ActivationBlockColumns() on.
struct ActivationParams {
  const void* x;       ///< [num_tokens, 2 * size]: gate, then value
  void* out;           ///< [num_tokens, size]
  const float* scale;  ///< device memory; null: 1. The output is divided by it.
  int64_t size;
  int64_t x_stride;
  int64_t out_stride;
  float host_scale;  ///< the output is divided by it too
};

/// Every field changes the machine code.
struct ActivationSpec {
  using Params = ActivationParams;
  static constexpr const char* kName = "activation.simt";
  static constexpr const char* kType = "ActivationSpec";
  static constexpr const char* kHeader = "kernels/activation/activation_simt_sm75.cuh";
  static constexpr const char* kNamespace = "activation_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kBF16;
  DType dtype_out = DType::kBF16;
  int32_t gate = 0;         ///< one of the kGate constants
  int32_t vector_size = 8;  ///< elements of an access
  int32_t num_vectors = 4;  ///< accesses of a thread to each half
  int32_t block_threads = 256;

  friend constexpr bool operator==(const ActivationSpec&, const ActivationSpec&) = default;
};

template <FieldsOf<ActivationSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(gate)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(num_vectors)
  FLASHINFER_NAMED(block_threads)
}

constexpr int32_t NumThreads(const ActivationSpec& spec) { return spec.block_threads; }

constexpr int32_t SmemBytes(const ActivationSpec&) { return 0; }

constexpr int64_t ActivationBlockColumns(const ActivationSpec& s) {
  return int64_t{s.block_threads} * s.vector_size * s.num_vectors;
}

/// The spec of `num_tokens` rows of `size`; `fixed` holds its dtypes, gate and vector size.
constexpr ActivationSpec MakeActivationSpec(const ActivationSpec& fixed, int64_t size,
                                            int64_t num_tokens) {
  ActivationSpec s = fixed;
  const int64_t num_vectors = (size + s.vector_size - 1) / s.vector_size;
  // Few tokens: one access a thread, small blocks, to use every multiprocessor.
  const bool is_small = num_tokens * num_vectors < 132 * 2048;
  s.num_vectors = is_small ? 1 : 4;
  s.block_threads = is_small ? 128 : 256;
  while (s.num_vectors > 1 && (s.num_vectors / 2) * s.block_threads >= num_vectors) {
    s.num_vectors /= 2;
  }
  while (s.block_threads > 32 && s.block_threads / 2 >= num_vectors) s.block_threads /= 2;
  return s;
}

}  // namespace flashinfer::kernels
