// SPDX-License-Identifier: Apache-2.0
// Chain speculative sampling problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"

namespace flashinfer::test {

struct ChainSpeculativeCase {
  int64_t num_rows = 16;
  int64_t num_drafts = 4;
  int64_t vocab_size = 1000;
  float likeness = 0.7f;  ///< how much of the draft's distribution is in the target's
};

template <FieldsOf<ChainSpeculativeCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(num_drafts)
  FLASHINFER_NAMED(vocab_size)
  FLASHINFER_NAMED(likeness)
}

inline std::vector<ChainSpeculativeCase> ChainSpeculativeCases() {
  std::vector<ChainSpeculativeCase> cases;
  for (int64_t vocab_size : {1, 2, 37, 1000, 32000}) {
    for (int64_t num_drafts : {0, 1, 5}) {
      for (float likeness : {0.0f, 0.7f, 1.0f}) {
        cases.push_back({vocab_size > 30000 ? 3 : 16, num_drafts, vocab_size, likeness});
      }
    }
  }
  cases.push_back({2, 3, 128256, 0.9f});
  return cases;
}

}  // namespace flashinfer::test
