// SPDX-License-Identifier: Apache-2.0
// Quantisation of blocks and back on every candidate, against float64 loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/quantize_blocks.h"
#include "support/case_run.h"
#include "support/cases/quantize_blocks.h"
#include "support/narrow_values.h"

namespace flashinfer::test {

inline DType QTypeOf(BlockFormat format) {
  if (format == BlockFormat::kMxFp8E4M3) return DType::kE4M3;
  return format == BlockFormat::kMxFp8E5M2 ? DType::kE5M2 : DType::kE2M1x2;
}

inline DType ScaleTypeOf(BlockFormat format) {
  return format == BlockFormat::kNvFp4 ? DType::kE4M3 : DType::kE8M0;
}

/// One call's tensors, and their values one by one.
struct BlockTensors {
  QuantizeBlocksCase c;
  HostTensor x;
  HostTensor q;
  HostTensor scales;

  explicit BlockTensors(const QuantizeBlocksCase& problem)
      : c(problem),
        x(c.dtype, {c.num_rows, c.hidden_size}, {c.hidden_size + c.row_padding, 1}),
        q(QTypeOf(c.format), {c.num_rows, RowBytes()}, {RowBytes() + c.row_padding, 1}),
        scales(ScaleTypeOf(c.format), {BlockScaleBytes(c.scale_layout, c.num_rows, NumBlocks())}) {}

  int64_t RowBytes() const { return c.padded_size / ElementsPerByte(c.format); }
  int64_t BlockSize() const { return ElementsPerBlock(c.format); }
  int64_t NumBlocks() const { return c.padded_size / BlockSize(); }

  double QAt(int64_t row, int64_t i) const {
    const int64_t per_byte = ElementsPerByte(c.format);
    const uint8_t byte = q.view().data_as<const uint8_t>()[row * q.view().stride(0) + i / per_byte];
    if (per_byte == 1) return NarrowValue(QTypeOf(c.format), byte);
    return NarrowValue(DType::kE2M1x2, static_cast<uint8_t>(byte >> (i % 2 * 4) & 15));
  }

  /// As the header's formulas say.
  int64_t OffsetOf(int64_t m, int64_t k) const {
    const int64_t tiles = (NumBlocks() + 3) / 4;
    if (c.scale_layout == ScaleLayout::kLinear) return m * NumBlocks() + k;
    if (c.scale_layout == ScaleLayout::k8x4) {
      return (m / 8 * tiles + k / 4) * 32 + m % 8 * 4 + k % 4;
    }
    return (m / 128 * tiles + k / 4) * 512 + m % 32 * 16 + m % 128 / 32 * 4 + k % 4;
  }
  double ScaleAt(int64_t row, int64_t block) const { return scales.At({OffsetOf(row, block)}); }

  double Amax(int64_t row, int64_t block) const {
    double amax = 0;
    for (int64_t i = block * BlockSize(); i < (block + 1) * BlockSize() && i < c.hidden_size; ++i) {
      const double size = std::abs(x.At({row, i}));
      if (std::isfinite(size)) amax = std::max(amax, size);
    }
    return amax;
  }
};

void CheckQuantizeBlocks(const QuantizeBlocksCase& c, CaseRun& run);

}  // namespace flashinfer::test
