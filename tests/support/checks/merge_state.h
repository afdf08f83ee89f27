// SPDX-License-Identifier: Apache-2.0
// Merging two attention states on every candidate, against float64.
#pragma once

#include <cstdint>

#include "support/case_run.h"
#include "support/cases/merge_state.h"

namespace flashinfer::test {

struct State {
  State(DType dtype, int64_t num_tokens, int64_t num_heads, int64_t head_dim)
      : v(dtype, {num_tokens, num_heads, head_dim}, {num_heads * head_dim + 3, head_dim, 1}),
        s(DType::kF32, {num_tokens, num_heads}) {}
  HostTensor v;
  HostTensor s;
};

void CheckMergeState(const MergeStateCase& c, CaseRun& run);

}  // namespace flashinfer::test
