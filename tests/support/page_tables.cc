// SPDX-License-Identifier: Apache-2.0
// Page tables of attention cases.
#include "support/page_tables.h"

#include <algorithm>
#include <numeric>

namespace flashinfer::test {

std::vector<int32_t> Indptr(const std::vector<int32_t>& lengths, int32_t unit) {
  std::vector<int32_t> indptr(lengths.size() + 1, 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    indptr[i + 1] = indptr[i] + (lengths[i] + unit - 1) / unit;
  }
  return indptr;
}

std::vector<int32_t> ShuffledPages(int64_t num_pages, int32_t count, std::mt19937_64& rng) {
  std::vector<int32_t> pages(static_cast<size_t>(num_pages));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), rng);
  pages.resize(static_cast<size_t>(count));
  return pages;
}

TensorView ViewOf(const std::vector<int32_t>& numbers) {
  return {numbers.data(), DType::kI32, {static_cast<int64_t>(numbers.size())}};
}

}  // namespace flashinfer::test
