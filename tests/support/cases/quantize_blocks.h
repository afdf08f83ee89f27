// SPDX-License-Identifier: Apache-2.0
// Problems of quantising blocks for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "ops/quantize_blocks.h"

namespace flashinfer::test {

struct QuantizeBlocksCase {
  BlockFormat format = BlockFormat::kNvFp4;
  DType dtype = DType::kBF16;
  ScaleLayout scale_layout = ScaleLayout::k128x4;
  int64_t num_rows = 5;
  int64_t hidden_size = 96;
  int64_t padded_size = 96;
  int64_t row_padding = 0;  ///< elements between rows of x, bytes between rows of q
};

template <FieldsOf<QuantizeBlocksCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(scale_layout)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(hidden_size)
  FLASHINFER_NAMED(padded_size)
  FLASHINFER_NAMED(row_padding)
}

inline QuantizeBlocksProblem ProblemOf(const QuantizeBlocksCase& c) {
  return {c.format, false, c.dtype, c.scale_layout, c.padded_size, 0};
}

inline std::vector<QuantizeBlocksCase> QuantizeBlocksCases() {
  std::vector<QuantizeBlocksCase> cases;
  for (BlockFormat format : {BlockFormat::kMxFp8E4M3, BlockFormat::kMxFp8E5M2, BlockFormat::kMxFp4,
                             BlockFormat::kNvFp4}) {
    for (ScaleLayout layout : {ScaleLayout::kLinear, ScaleLayout::k128x4, ScaleLayout::k8x4}) {
      const QuantizeBlocksCase base{.format = format, .scale_layout = layout};
      const auto add = [&](auto change) {
        cases.push_back(base);
        change(cases.back());
      };
      for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        add([&](QuantizeBlocksCase& c) { c.dtype = dtype; });
      }
      for (int64_t num_rows : {0, 1, 8, 127, 128, 129, 300}) {
        add([&](QuantizeBlocksCase& c) {
          c.num_rows = num_rows;
          c.hidden_size = c.padded_size = 160;
          c.row_padding = 5;
        });
      }
      for (int64_t hidden_size : {0, 1, 31, 33, 65, 127}) {
        add([&](QuantizeBlocksCase& c) {
          c.hidden_size = hidden_size;
          c.padded_size = 128;
        });
      }
      add([](QuantizeBlocksCase& c) { c.hidden_size = c.padded_size = 8192; });
    }
  }
  cases.push_back({.num_rows = 200000, .hidden_size = 16, .padded_size = 16});
  return cases;
}

}  // namespace flashinfer::test
