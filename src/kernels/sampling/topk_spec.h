// SPDX-License-Identifier: Apache-2.0
// Top-k selection on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/sampling/vocabulary_tile.h"

namespace flashinfer::kernels {

/// What becomes of an index: itself plus an offset of the row, or a place in the request's pages.
struct TopKIndexMapParams {
  RowValuesParams<int32_t> offset;
  const int32_t* page_table;  ///< null: no pages
  int64_t page_table_row_stride;
  int64_t page_table_stride;
  const void* row_to_request;  ///< i32 or i64; null: row i is of request i
  int64_t row_to_request_stride;
  int64_t page_size;
  bool requests_are_64_bit;
};

struct TopKParams {
  VocabularyRowsParams rows;
  RowValuesParams<int32_t> row_starts;
  RowValuesParams<int32_t> lengths;
  void* values;  ///< of the dtype of rows; null: not wanted
  int64_t values_stride;
  void* indices;  ///< i32 or i64
  int64_t indices_stride;
  TopKIndexMapParams map;
  int32_t k;
  bool indices_are_64_bit;
  bool takes_highest;  ///< of ties, the highest indices
};

/// Every field changes the machine code.
struct TopKSpec {
  using Params = TopKParams;
  static constexpr const char* kName = "topk.simt";
  static constexpr const char* kType = "TopKSpec";
  static constexpr const char* kHeader = "kernels/sampling/topk_simt_sm75.cuh";
  static constexpr const char* kNamespace = "topk_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kF32;
  int32_t sort_size = 0;      ///< sorts up to so many in shared memory, a power of two; 0: by index
  bool sorts_output = false;  ///< sorts any number where they are written
  int32_t vector_size = 4;    ///< elements of an access, up to 16 bytes
  int32_t block_threads = 256;
  int32_t cluster_size = 8;     ///< blocks of a row
  int32_t resident_chunks = 3;  ///< of a warp, in registers; 0: none is kept
  int32_t shared_chunks = 1;    ///< of a warp, in shared memory: those after, or on their way
  bool reads_again = false;     ///< the row has more chunks

  friend constexpr bool operator==(const TopKSpec&, const TopKSpec&) = default;
};

template <FieldsOf<TopKSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(sort_size)
  FLASHINFER_NAMED(sorts_output)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(block_threads)
  FLASHINFER_NAMED(cluster_size)
  FLASHINFER_NAMED(resident_chunks)
  FLASHINFER_NAMED(shared_chunks)
  FLASHINFER_NAMED(reads_again)
}

constexpr int32_t NumThreads(const TopKSpec& spec) { return spec.block_threads; }
constexpr int32_t MinBlocksPerSm(const TopKSpec& spec) {
  return VocabularyMinBlocks(spec.block_threads, spec.resident_chunks);
}
constexpr int32_t SmemBytes(const TopKSpec& spec) {
  return CutSearchBytes(spec.resident_chunks, spec.cluster_size) +
         ExchangeBytes(spec.block_threads, spec.cluster_size) +
         SharedChunksBytes(spec.block_threads, spec.shared_chunks, spec.dtype) + 16 +
         spec.sort_size * 8;
}

}  // namespace flashinfer::kernels
