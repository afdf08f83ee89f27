// SPDX-License-Identifier: Apache-2.0
// Merging many attention states on every candidate, against float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "ops/merge_states.h"
#include "support/case_run.h"
#include "support/cases/merge_states.h"

namespace flashinfer::test {

/// States [num_tokens, num_states, num_heads, head_dim] with gaps; some are empty and hold
/// anything, and one head of the first token has no state that is not.
struct MergeStatesInputs {
  explicit MergeStatesInputs(const MergeStatesCase& c)
      : v(c.dtype, {c.num_tokens, c.num_states, c.num_heads, c.head_dim},
          {c.num_states * (c.num_heads * c.head_dim + 5) + 3, c.num_heads * c.head_dim + 5,
           c.head_dim, 1}),
        s(DType::kF32, {c.num_tokens, c.num_states, c.num_heads}) {
    std::mt19937_64 rng(61);
    v.FillNormal(rng);
    s.FillNormal(rng, 4);
    for (int64_t t = 0; t < c.num_tokens; ++t) {
      for (int64_t k = t % 5; k < c.num_states; k += 5) {
        Empty(t, k, 0, k % 2 == 0 ? std::nan("") : std::numeric_limits<double>::infinity());
      }
    }
    if (c.num_tokens < 4) return;
    for (int64_t k = 0; k < c.num_states; ++k) {
      Empty(0, k, c.num_heads - 1, std::nan(""));
      s.Set({3, k, c.num_heads - 1}, -66855.0 - static_cast<double>(k));
    }
  }
  void Empty(int64_t token, int64_t state, int64_t head, double value) {
    s.Set({token, state, head}, -std::numeric_limits<double>::infinity());
    v.Set({token, state, head, 0}, value);
  }
  HostTensor v;
  HostTensor s;
};

/// States begin … end of one row.
struct StateRange {
  int64_t token;
  int64_t head;
  int64_t begin;
  int64_t end;
};

/// The merged values, and the merged score as the last one.
std::vector<double> MergeOracle(const MergeStatesInputs& in, const StateRange& r);
void ExpectMergedRow(const HostTensor& v, const HostTensor& s, int64_t token, int64_t head,
                     const std::vector<double>& expected, Trial& trial);

/// MergeStates(), and VariableLengthMergeStates() with the states shared out among tokens.
void CheckMergeStates(const MergeStatesCase& c, CaseRun& run);
void CheckVariableLengthMergeStates(const MergeStatesCase& c, CaseRun& run);

}  // namespace flashinfer::test
