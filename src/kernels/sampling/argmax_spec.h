// SPDX-License-Identifier: Apache-2.0
// The largest element of rows on CUDA cores: what changes its code, and what changes per call.
#pragma once

#include "core/field_list.h"
#include "kernels/sampling/vocabulary_tile.h"

namespace flashinfer::kernels {

struct ArgMaxParams {
  VocabularyRowsParams rows;
  TokenOutputsParams out;
};

/// Every field changes the machine code.
struct ArgMaxSpec {
  using Params = ArgMaxParams;
  static constexpr const char* kName = "argmax.simt";
  static constexpr const char* kType = "ArgMaxSpec";
  static constexpr const char* kHeader = "kernels/sampling/argmax_simt_sm75.cuh";
  static constexpr const char* kNamespace = "argmax_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kF32;
  int32_t vector_size = 4;  ///< elements of an access, up to 16 bytes
  int32_t block_threads = 256;
  int32_t cluster_size = 8;     ///< blocks of a row
  int32_t resident_chunks = 4;  ///< of a warp, in registers
  bool reads_again = false;     ///< the row has more chunks

  friend constexpr bool operator==(const ArgMaxSpec&, const ArgMaxSpec&) = default;
};

template <FieldsOf<ArgMaxSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(block_threads)
  FLASHINFER_NAMED(cluster_size)
  FLASHINFER_NAMED(resident_chunks)
  FLASHINFER_NAMED(reads_again)
}

constexpr int32_t NumThreads(const ArgMaxSpec& spec) { return spec.block_threads; }
constexpr int32_t MinBlocksPerSm(const ArgMaxSpec& spec) {
  return VocabularyMinBlocks(spec.block_threads, spec.resident_chunks);
}
constexpr int32_t SmemBytes(const ArgMaxSpec& spec) {
  return ExchangeBytes(spec.block_threads, spec.cluster_size);
}

}  // namespace flashinfer::kernels
