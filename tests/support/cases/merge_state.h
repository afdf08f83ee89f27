// SPDX-License-Identifier: Apache-2.0
// Pairs of attention states to merge.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct MergeStateCase {
  DType dtype = DType::kBF16;
  int64_t head_dim = 128;
};

template <FieldsOf<MergeStateCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(head_dim)
}

inline std::vector<MergeStateCase> MergeStateCases() {
  std::vector<MergeStateCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t head_dim : {8, 64, 72, 128}) cases.push_back({dtype, head_dim});
  }
  return cases;
}

}  // namespace flashinfer::test
