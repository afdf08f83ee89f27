// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks with narrow scales as the dispatcher sees it: problem, parameters,
// candidates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/field_list.h"
#include "dispatch/candidate.h"
#include "flashinfer/quantize.h"

namespace flashinfer {

enum class BlockFormat : uint8_t {
  kMxFp8E4M3,  ///< `mxfp8_e4m3`
  kMxFp8E5M2,  ///< `mxfp8_e5m2`
  kMxFp4,      ///< `mxfp4`
  kNvFp4,      ///< `nvfp4`
};
std::string ValueText(BlockFormat value);
void ParseValue(std::string_view field, std::string_view text, BlockFormat& value);
std::string ValueText(ScaleLayout value);
void ParseValue(std::string_view field, std::string_view text, ScaleLayout& value);

/// Elements that share a scale.
constexpr int64_t ElementsPerBlock(BlockFormat format) {
  return format == BlockFormat::kNvFp4 ? 16 : 32;
}
constexpr int64_t ElementsPerByte(BlockFormat format) {
  return format == BlockFormat::kMxFp4 || format == BlockFormat::kNvFp4 ? 2 : 1;
}

/// A layout's padded sizes.
constexpr int64_t PaddedScaleRows(ScaleLayout layout, int64_t num_rows) {
  const int64_t tile = layout == ScaleLayout::k128x4 ? 128 : layout == ScaleLayout::k8x4 ? 8 : 1;
  return (num_rows + tile - 1) / tile * tile;
}
constexpr int64_t PaddedScaleBlocks(ScaleLayout layout, int64_t num_blocks) {
  return layout == ScaleLayout::kLinear ? num_blocks : (num_blocks + 3) / 4 * 4;
}

/// Where the scale of a row and block lies; `padded_blocks` as PaddedScaleBlocks() gives them.
constexpr int64_t ScaleOffset(ScaleLayout layout, int64_t row, int64_t block,
                              int64_t padded_blocks) {
  switch (layout) {
    case ScaleLayout::k128x4:
      return row / 128 * 128 * padded_blocks + block / 4 * 512 + row % 32 * 16 +
             row % 128 / 32 * 4 + block % 4;
    case ScaleLayout::k8x4:
      return row / 8 * 8 * padded_blocks + block / 4 * 32 + row % 8 * 4 + block % 4;
    default:
      return row * padded_blocks + block;
  }
}

/// What decides who can run it.
struct QuantizeBlocksProblem {
  BlockFormat format = BlockFormat::kNvFp4;
  bool inverse = false;        ///< from q to floats
  DType dtype = DType::kBF16;  ///< of the floats
  ScaleLayout scale_layout = ScaleLayout::k128x4;
  int64_t padded_size = 4096;
  int32_t arch = 0;  ///< 0: host memory; 90: a CUDA device of compute capability 9.0
};

template <FieldsOf<QuantizeBlocksProblem> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(inverse)
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(scale_layout)
  FLASHINFER_NAMED(padded_size)
  FLASHINFER_NAMED(arch)
}

/// One call.
struct QuantizeBlocksParams {
  void* x;          // the floats; written when inverse
  uint8_t* q;       // read when inverse
  uint8_t* scales;  // read when inverse
  int64_t num_rows;
  int64_t hidden_size;
  int64_t padded_size;  // elements of a row of q
  int64_t x_stride;     // elements
  int64_t q_stride;     // bytes
  float global_scale;
  const float* global_scale_data;  // null: global_scale holds it
  BlockFormat format;
  ScaleLayout scale_layout;
  DType dtype;
  bool inverse;
  Stream stream;
};

struct QuantizeBlocksOp {
  static constexpr std::string_view kName = "quantize_blocks";
  using Problem = QuantizeBlocksProblem;
  using Entry = void (*)(const QuantizeBlocksParams&);
  static std::span<const Candidate<Problem, Entry>> Candidates();
};

}  // namespace flashinfer
