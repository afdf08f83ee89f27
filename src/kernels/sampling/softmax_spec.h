// SPDX-License-Identifier: Apache-2.0
// Softmax of rows of a vocabulary on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/sampling/vocabulary_tile.h"

namespace flashinfer::kernels {

struct SoftmaxParams {
  VocabularyRowsParams rows;
  float* probs;
  int64_t probs_stride;
  RowValuesParams<float> temperature;
};

/// Every field changes the machine code.
struct SoftmaxSpec {
  using Params = SoftmaxParams;
  static constexpr const char* kName = "softmax.simt";
  static constexpr const char* kType = "SoftmaxSpec";
  static constexpr const char* kHeader = "kernels/sampling/softmax_simt_sm75.cuh";
  static constexpr const char* kNamespace = "softmax_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kF32;
  int32_t vector_size = 4;  ///< elements of an access, up to 16 bytes
  int32_t block_threads = 256;
  int32_t cluster_size = 8;     ///< blocks of a row
  int32_t resident_chunks = 3;  ///< of a warp, in registers
  int32_t shared_chunks = 1;    ///< of a warp, in shared memory: those after
  bool reads_again = false;     ///< the row has more chunks

  friend constexpr bool operator==(const SoftmaxSpec&, const SoftmaxSpec&) = default;
};

template <FieldsOf<SoftmaxSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(block_threads)
  FLASHINFER_NAMED(cluster_size)
  FLASHINFER_NAMED(resident_chunks)
  FLASHINFER_NAMED(shared_chunks)
  FLASHINFER_NAMED(reads_again)
}

constexpr int32_t NumThreads(const SoftmaxSpec& spec) { return spec.block_threads; }
constexpr int32_t MinBlocksPerSm(const SoftmaxSpec& spec) {
  return VocabularyMinBlocks(spec.block_threads, spec.resident_chunks);
}
constexpr int32_t SmemBytes(const SoftmaxSpec& spec) {
  return ExchangeBytes(spec.block_threads, spec.cluster_size) +
         SharedChunksBytes(spec.block_threads, spec.shared_chunks, spec.dtype);
}

}  // namespace flashinfer::kernels
