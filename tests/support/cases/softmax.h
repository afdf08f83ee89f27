// SPDX-License-Identifier: Apache-2.0
// Rows over a vocabulary, for softmax and argmax.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fields.h"
#include "flashinfer/tensor.h"

namespace flashinfer::test {

struct VocabularyCase {
  DType dtype = DType::kF32;
  int64_t num_rows = 3;
  int64_t vocab_size = 32768;
};

template <FieldsOf<VocabularyCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(num_rows)
  FLASHINFER_NAMED(vocab_size)
}

inline std::vector<VocabularyCase> VocabularyCases() {
  std::vector<VocabularyCase> cases;
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int64_t vocab_size : {1, 2, 15, 17, 255, 256, 257, 4099, 32768, 49152}) {
      cases.push_back({dtype, 3, vocab_size});
    }
    cases.push_back({dtype, 0, 100});
    cases.push_back({dtype, 1, 256001});
  }
  cases.push_back({DType::kF32, 70000, 3});
  return cases;
}

}  // namespace flashinfer::test
