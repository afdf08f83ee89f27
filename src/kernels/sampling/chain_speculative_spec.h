// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/sampling/vocabulary_tile.h"

namespace flashinfer::kernels {

/// Probabilities by row and position; strides count elements.
struct ProbsByPositionParams {
  const float* data;
  int64_t row_stride;
  int64_t position_stride;
};

/// Counts that are added to; null: not wanted.
struct RowCountsParams {
  int32_t* data;
  int64_t stride;
};

struct ChainSpeculativeParams {
  ProbsByPositionParams draft;
  ProbsByPositionParams target;
  const int32_t* draft_tokens;
  int64_t draft_tokens_row_stride;
  int64_t draft_tokens_stride;
  int32_t* tokens;
  int64_t tokens_row_stride;
  int64_t tokens_stride;
  RowCountsParams num_accepted;
  RowCountsParams num_emitted;
  RandomParams random;
  int32_t num_drafts;
  int32_t size;  ///< of the vocabulary
  int32_t chunks_per_warp;
};

/// Every field changes the machine code.
struct ChainSpeculativeSpec {
  using Params = ChainSpeculativeParams;
  static constexpr const char* kName = "chain_speculative.simt";
  static constexpr const char* kType = "ChainSpeculativeSpec";
  static constexpr const char* kHeader = "kernels/sampling/chain_speculative_simt_sm75.cuh";
  static constexpr const char* kNamespace = "chain_speculative_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kF32;
  int32_t vector_size = 4;  ///< elements of an access, up to 16 bytes
  int32_t block_threads = 256;
  int32_t cluster_size = 8;     ///< blocks of a row
  int32_t resident_chunks = 4;  ///< of a warp, in registers
  bool reads_again = false;     ///< the row has more chunks

  friend constexpr bool operator==(const ChainSpeculativeSpec&,
                                   const ChainSpeculativeSpec&) = default;
};

template <FieldsOf<ChainSpeculativeSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(block_threads)
  FLASHINFER_NAMED(cluster_size)
  FLASHINFER_NAMED(resident_chunks)
  FLASHINFER_NAMED(reads_again)
}

constexpr int32_t NumThreads(const ChainSpeculativeSpec& spec) { return spec.block_threads; }
constexpr int32_t MinBlocksPerSm(const ChainSpeculativeSpec& spec) {
  return VocabularyMinBlocks(spec.block_threads, spec.resident_chunks);
}
constexpr int32_t SmemBytes(const ChainSpeculativeSpec& spec) {
  return kChunkElements * 4 + ExchangeBytes(spec.block_threads, spec.cluster_size);
}

}  // namespace flashinfer::kernels
