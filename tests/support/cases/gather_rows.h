// SPDX-License-Identifier: Apache-2.0
// Look-ups of packed weights' rows.
#pragma once

#include <cstdint>
#include <vector>

#include "core/field_list.h"
#include "flashinfer/gemm.h"
#include "support/gguf_blocks.h"

namespace flashinfer::test {

struct GatherRowsCase {
  WeightFormat format = WeightFormat::kQ4_1;
  int64_t rows = 37;
  int64_t cols = 256;
  int64_t num_tokens = 5;
  DType dtype_out = DType::kF32;
  int64_t padding = 0;  ///< elements between rows of out
};

template <FieldsOf<GatherRowsCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(format)
  FLASHINFER_NAMED(rows)
  FLASHINFER_NAMED(cols)
  FLASHINFER_NAMED(num_tokens)
  FLASHINFER_NAMED(dtype_out)
  FLASHINFER_NAMED(padding)
}

inline std::vector<GatherRowsCase> GatherRowsCases() {
  std::vector<GatherRowsCase> cases;
  for (WeightFormat format : kWeightFormats) {
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const GatherRowsCase base{.format = format, .dtype_out = dtype};
      const auto add = [&](auto change) {
        cases.push_back(base);
        change(cases.back());
      };
      add([](GatherRowsCase& c) { c.padding = 4; });
      add([](GatherRowsCase& c) { c.padding = 5; });
      for (int64_t rows : {1, 16, 17, 200}) {
        add([&](GatherRowsCase& c) { c.rows = rows; });
      }
      for (int64_t num_tokens : {0, 1, 300}) {
        add([&](GatherRowsCase& c) { c.num_tokens = num_tokens; });
      }
      add([](GatherRowsCase& c) { c.cols = 1536; });
      if (BlockSize(format) == 32) {
        add([](GatherRowsCase& c) { c.cols = 96; });
      }
      if (BlockSize(format) == 1) {
        add([](GatherRowsCase& c) { c.cols = 7; });
      }
    }
  }
  return cases;
}

}  // namespace flashinfer::test
