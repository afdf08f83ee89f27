// SPDX-License-Identifier: Apache-2.0
// Sets of attention states to merge, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct MergeStatesCase {
  DType dtype = DType::kBF16;
  int64_t num_tokens = 9;
  int64_t num_states = 3;
  int64_t num_heads = 2;
  int64_t head_dim = 128;
};

template <FieldsOf<MergeStatesCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(num_tokens)
  FLASHINFER_NAMED(num_states)
  FLASHINFER_NAMED(num_heads)
  FLASHINFER_NAMED(head_dim)
}

inline std::vector<MergeStatesCase> MergeStatesCases() {
  std::vector<MergeStatesCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t states : {0, 1, 2, 3, 8, 33}) {
      cases.push_back({.dtype = dtype, .num_states = states, .head_dim = 64});
    }
    for (int64_t dim : {1, 8, 72, 128, 256, 264, 512, 576}) {
      cases.push_back({.dtype = dtype, .num_states = 4, .head_dim = dim});
    }
    cases.push_back({.dtype = dtype, .num_tokens = 0});
    cases.push_back({.dtype = dtype, .num_tokens = 989, .num_heads = 3, .head_dim = 40});
  }
  return cases;
}

}  // namespace flashinfer::test
