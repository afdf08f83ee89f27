// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales, and back, on CUDA cores: what changes its code, and
// what changes per call.
#pragma once

#include "core/field_list.h"
#include "flashinfer/dtype.h"
#include "kernels/quantize/scale_layout.h"
#include "kernels/tile/divisor.h"

namespace flashinfer::kernels {

/// Rows are cut into pieces, which groups of threads take; block b has piece b % pieces of its
/// rows, from b / pieces times QuantizeBlocksRows() on.
struct QuantizeBlocksKernelParams {
  void* x;                         ///< the floats; written when inverse
  uint8_t* q;                      ///< read when inverse
  uint8_t* scales;                 ///< read when inverse
  const float* global_scale_data;  ///< null: global_scale holds it
  int64_t num_rows;
  int64_t padded_rows;    ///< rows that have scales
  int64_t x_stride;       ///< elements
  int64_t q_stride;       ///< bytes
  int32_t hidden_size;    ///< elements of a row of x
  int32_t padded_size;    ///< elements of a row of q
  int32_t padded_blocks;  ///< scales of a row
  int32_t tile_rows;      ///< of the scales' layout
  Divisor pieces;         ///< of a row
  float global_scale;
};

/// Every field changes the machine code.
struct QuantizeBlocksSpec {
  using Params = QuantizeBlocksKernelParams;
  static constexpr const char* kName = "quantize_blocks.simt";
  static constexpr const char* kType = "QuantizeBlocksSpec";
  static constexpr const char* kHeader = "kernels/quantize/quantize_blocks_simt_sm75.cuh";
  static constexpr const char* kNamespace = "quantize_blocks_simt";
  static constexpr int kMinArch = 75;

  DType dtype = DType::kBF16;  ///< of the floats
  DType dtype_q = DType::kE2M1x2;
  int32_t block_size = 16;  ///< elements that share a scale: 16 of e2m1x2 (NVFP4), or 32
  bool inverse = false;
  int32_t vector_size = 8;   ///< floats of an access
  int32_t q_bytes = 8;       ///< of an access of q
  int32_t row_threads = 32;  ///< that share a piece: a power of two, 2 to 32

  friend constexpr bool operator==(const QuantizeBlocksSpec&, const QuantizeBlocksSpec&) = default;
};

template <FieldsOf<QuantizeBlocksSpec> Self, class Visit>
constexpr void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_q)
  FLASHINFER_NAMED(block_size)
  FLASHINFER_NAMED(inverse)
  FLASHINFER_NAMED(vector_size)
  FLASHINFER_NAMED(q_bytes)
  FLASHINFER_NAMED(row_threads)
}

/// Elements of a thread: an NVFP4 block, or half a block of the others.
inline constexpr int32_t kQuantizeBlocksElements = 16;

constexpr int32_t NumThreads(const QuantizeBlocksSpec&) { return 256; }
constexpr int32_t SmemBytes(const QuantizeBlocksSpec&) { return 0; }

constexpr int32_t QuantizeBlocksRows(const QuantizeBlocksSpec& s) {
  return NumThreads(s) / s.row_threads;
}
constexpr int32_t QuantizeBlocksPiece(const QuantizeBlocksSpec& s) {
  return s.row_threads * kQuantizeBlocksElements;
}

/// Threads for rows of `size` elements: no more than they have work for.
constexpr int32_t QuantizeBlocksRowThreads(int64_t size) {
  int32_t threads = 2;
  while (threads < 32 && int64_t{threads} * kQuantizeBlocksElements < size) threads *= 2;
  return threads;
}

}  // namespace flashinfer::kernels
