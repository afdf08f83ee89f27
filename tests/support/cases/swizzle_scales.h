// SPDX-License-Identifier: Apache-2.0
// Block scales to bring into a layout.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "ops/swizzle_scales.h"

namespace flashinfer::test {

struct SwizzleScalesCase {
  ScaleLayout layout = ScaleLayout::k128x4;
  int64_t num_rows = 128;
  int64_t num_blocks = 4;
};

template <FieldsOf<SwizzleScalesCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(layout)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(num_blocks)
}

inline std::vector<SwizzleScalesCase> SwizzleScalesCases() {
  std::vector<SwizzleScalesCase> cases;
  for (ScaleLayout layout : {ScaleLayout::kLinear, ScaleLayout::k128x4, ScaleLayout::k8x4}) {
    for (int64_t num_rows : {0, 1, 7, 128, 300}) {
      for (int64_t num_blocks : {1, 4, 6, 129}) cases.push_back({layout, num_rows, num_blocks});
    }
  }
  return cases;
}

}  // namespace flashinfer::test
