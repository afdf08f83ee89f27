// SPDX-License-Identifier: Apache-2.0
// Renormalising and masking problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct TokenFilterCase {
  DType dtype = DType::kF32;
  bool from_logits = false;  ///< masks logits; else renormalises probabilities
  int64_t num_rows = 3;
  int64_t vocab_size = 1000;
  int32_t top_k = 0;
  float top_p = 1.0f;
  int64_t num_distinct = 0;  ///< values are drawn from so many: ties; 0: any
};

template <FieldsOf<TokenFilterCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(from_logits)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(vocab_size)
  FLASHINFER_NAMED(top_k)
  FLASHINFER_NAMED(top_p)
  FLASHINFER_NAMED(num_distinct)
}

inline std::vector<TokenFilterCase> TokenFilterCases() {
  std::vector<TokenFilterCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t vocab_size : {1, 2, 17, 257, 4099, 49152}) {
      for (int64_t num_distinct : {0, 3}) {
        TokenFilterCase c{.dtype = dtype, .vocab_size = vocab_size, .num_distinct = num_distinct};
        for (int32_t top_k : {0, 1, 40, 100000}) {
          c.top_k = top_k;
          c.from_logits = false;
          cases.push_back(c);
          c.from_logits = true;
          cases.push_back(c);
        }
        c.top_k = 0;
        c.from_logits = false;
        for (float top_p : {0.0f, 0.3f, 0.95f}) {
          c.top_p = top_p;
          cases.push_back(c);
        }
      }
    }
  }
  cases.push_back({.num_rows = 1, .vocab_size = 262144, .top_p = 0.9f});
  cases.push_back({.from_logits = true, .num_rows = 1, .vocab_size = 262144, .top_k = 50});
  cases.push_back({.num_rows = 70000, .vocab_size = 5, .top_k = 2, .num_distinct = 3});
  return cases;
}

}  // namespace flashinfer::test
