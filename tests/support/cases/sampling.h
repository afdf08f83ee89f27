// SPDX-License-Identifier: Apache-2.0
// Sampling problems for tests, benchmarks and `flashinfer check`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct SamplingCase {
  DType dtype = DType::kF32;
  bool from_logits = true;
  int64_t num_rows = 16;
  int64_t vocab_size = 1000;
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  bool joint = false;
  int64_t num_distinct = 0;  ///< values are drawn from so many: ties; 0: any
};

template <FieldsOf<SamplingCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(from_logits)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(vocab_size)
  FLASHINFER_NAMED(temperature)
  FLASHINFER_NAMED(top_k)
  FLASHINFER_NAMED(top_p)
  FLASHINFER_NAMED(min_p)
  FLASHINFER_NAMED(joint)
  FLASHINFER_NAMED(num_distinct)
}

inline std::vector<SamplingCase> SamplingCases() {
  std::vector<SamplingCase> cases;
  for (bool from_logits : {false, true}) {
    for (int64_t vocab_size : {1, 2, 7, 256, 257, 1000, 32000, 49152, 128256}) {
      const SamplingCase base{.from_logits = from_logits,
                              .num_rows = vocab_size > 30000 ? 3 : 16,
                              .vocab_size = vocab_size};
      cases.push_back(base);
      for (int64_t num_distinct : {0, 1, 5}) {
        for (bool joint : {false, true}) {
          SamplingCase c = base;
          c.num_distinct = num_distinct;
          c.joint = joint;
          c.top_k = 50;
          cases.push_back(c);
          c.top_p = 0.9f;
          cases.push_back(c);
          c.min_p = 0.1f;
          cases.push_back(c);
          c.top_k = 0;
          cases.push_back(c);
        }
      }
    }
    for (int64_t vocab_size : {256001, 1000003}) {
      cases.push_back({.from_logits = from_logits,
                       .num_rows = 1,
                       .vocab_size = vocab_size,
                       .top_k = 1000,
                       .top_p = 0.5f});
    }
  }
  for (int32_t top_k : {0, 20}) {
    cases.push_back({.vocab_size = 200, .temperature = 0.0f, .top_k = top_k, .top_p = 0.8f});
  }
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    for (float temperature : {0.0f, 0.25f, 1.5f}) {
      cases.push_back({.dtype = dtype, .temperature = temperature, .top_k = 20, .top_p = 0.8f});
      cases.push_back({.dtype = dtype, .temperature = temperature, .min_p = 0.02f});
    }
  }
  return cases;
}

}  // namespace flashinfer::test
