// SPDX-License-Identifier: Apache-2.0
// Sampling on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/sampling/vocabulary_tile.h"

namespace flashinfer::kernels {

/// Parameters of filters and seeds belong to outputs.
struct SamplingParams {
  VocabularyRowsParams rows;
  const void* indices;  ///< i32 or i64: which row an output reads; null: its own
  int64_t indices_stride;
  int64_t num_rows;
  TokenOutputsParams out;
  RowValuesParams<float> temperature;
  RowValuesParams<int32_t> top_k;
  RowValuesParams<float> top_p;
  RowValuesParams<float> min_p;
  RandomParams random;
  bool is_joint;
  bool indices_are_64_bit;
};

/// Every field changes the machine code.
struct SamplingSpec {
  using Params = SamplingParams;
  static constexpr const char* kName = "sampling.simt";
  static constexpr const char* kType = "SamplingSpec";
  static constexpr const char* kHeader = "kernels/sampling/sampling_simt_sm75.cuh";
  static constexpr const char* kNamespace = "sampling_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kF32;
  bool from_logits = false;
  bool has_top_k = false;
  bool has_top_p = true;
  int32_t vector_size = 4;  ///< elements of an access, up to 16 bytes
  int32_t block_threads = 256;
  int32_t cluster_size = 8;     ///< blocks of a row
  int32_t resident_chunks = 3;  ///< of a warp, in registers; 0: none is kept
  int32_t shared_chunks = 1;    ///< of a warp, in shared memory: those after, or on their way
  bool reads_again = false;     ///< the row has more chunks

  friend constexpr bool operator==(const SamplingSpec&, const SamplingSpec&) = default;
};

template <FieldsOf<SamplingSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(from_logits)
  FLASHINFER_NAMED(has_top_k)
  FLASHINFER_NAMED(has_top_p)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(block_threads)
  FLASHINFER_NAMED(cluster_size)
  FLASHINFER_NAMED(resident_chunks)
  FLASHINFER_NAMED(shared_chunks)
  FLASHINFER_NAMED(reads_again)
}

constexpr int32_t NumThreads(const SamplingSpec& spec) { return spec.block_threads; }
constexpr int32_t MinBlocksPerSm(const SamplingSpec& spec) {
  return VocabularyMinBlocks(spec.block_threads, spec.resident_chunks);
}
constexpr int32_t SmemBytes(const SamplingSpec& spec) {
  const int32_t sample = spec.has_top_p ? SampleBytes(spec.block_threads, spec.cluster_size) : 0;
  return CutSearchBytes(spec.resident_chunks, spec.cluster_size) + sample +
         ExchangeBytes(spec.block_threads, spec.cluster_size) +
         SharedChunksBytes(spec.block_threads, spec.shared_chunks, spec.dtype) +
         DrawBytes(spec.block_threads, spec.resident_chunks);
}

}  // namespace flashinfer::kernels
