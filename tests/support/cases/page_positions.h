// SPDX-License-Identifier: Apache-2.0
// Batches whose positions and lengths are wanted.
#pragma once

#include <cstdint>
#include <vector>

#include "core/field_list.h"

namespace flashinfer::test {

/// New tokens of a batch.
struct BatchIndicesPositionsCase {
  int64_t num_requests = 7;
  int32_t max_new = 6;       ///< tokens that a request adds, drawn from 0 on
  int32_t max_before = 100;  ///< tokens that it has already, likewise
  int64_t num_spare = 0;     ///< rows of the outputs after the last token
};

template <FieldsOf<BatchIndicesPositionsCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(num_requests)
  FLASHINFER_NAMED(max_new)
  FLASHINFER_NAMED(max_before)
  FLASHINFER_NAMED(num_spare)
}

inline std::vector<BatchIndicesPositionsCase> BatchIndicesPositionsCases() {
  std::vector<BatchIndicesPositionsCase> cases;
  for (int64_t num_requests : {0, 1, 2, 7, 40, 1000}) {
    for (int32_t max_new : {0, 1, 6, 300}) {
      for (int64_t num_spare : {0, 5}) {
        cases.push_back({.num_requests = num_requests, .max_new = max_new, .num_spare = num_spare});
      }
    }
  }
  cases.push_back({.num_requests = 1, .max_new = 3, .max_before = 2000000000});
  cases.push_back({.num_requests = 70000, .max_new = 2});
  return cases;
}

/// Pages of a batch.
struct SeqLensCase {
  int64_t num_requests = 7;
  int32_t max_pages = 5;  ///< of a request, drawn from 0 on
  int32_t page_size = 16;
};

template <FieldsOf<SeqLensCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(num_requests)
  FLASHINFER_NAMED(max_pages)
  FLASHINFER_NAMED(page_size)
}

inline std::vector<SeqLensCase> SeqLensCases() {
  std::vector<SeqLensCase> cases;
  for (int64_t num_requests : {0, 1, 7, 1000}) {
    for (int32_t max_pages : {0, 1, 5, 1000}) {
      for (int32_t page_size : {1, 3, 16, 512}) {
        cases.push_back({num_requests, max_pages, page_size});
      }
    }
  }
  cases.push_back({.num_requests = 2, .max_pages = 32767, .page_size = 65536});
  cases.push_back({.num_requests = 70000});
  return cases;
}

}  // namespace flashinfer::test
