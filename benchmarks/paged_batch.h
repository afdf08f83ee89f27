// SPDX-License-Identifier: Apache-2.0
// Batches of equal requests over paged caches, for the attention benchmarks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "backends/cpu/page_block.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {

/// A cache of any number of pages, in huge pages of the system as an engine's pool is.
class PagedCache {
 public:
  /// Random values in the first page, which the others repeat: drawing all of them takes minutes.
  PagedCache(DType dtype, Dims shape, std::mt19937_64& rng)
      : block_(static_cast<size_t>(
            TensorView(static_cast<void*>(nullptr), dtype, shape).num_elements() *
            SizeBytes(dtype))),
        view_(block_.data(), dtype, shape) {
    test::HostTensor page(dtype, view_[0].shape());
    page.FillNormal(rng);
    const auto bytes = static_cast<size_t>(view_.stride(0) * SizeBytes(dtype));
    for (int64_t i = 0; i < shape[0]; ++i) {
      std::memcpy(view_[i].data(), page.view().data(), bytes);
    }
  }
  const TensorView& view() const { return view_; }

 private:
  cpu::PageBlock block_;
  TensorView view_;
};

struct PagedBatchSizes {
  int64_t num_requests;
  int64_t q_len;
  int64_t kv_len;
  int64_t page_size;
};

/// Page tables of `num_copies` batches, each with its own pages of one shuffled pool.
class PagedBatch {
 public:
  PagedBatch(const PagedBatchSizes& sizes, int64_t num_copies, std::mt19937_64& rng)
      : pages_per_copy_(sizes.num_requests * PagesPerRequest(sizes)),
        kv_len_(static_cast<size_t>(sizes.num_requests), static_cast<int32_t>(sizes.kv_len)),
        last_len_(kv_len_.size(), static_cast<int32_t>((sizes.kv_len - 1) % sizes.page_size + 1)) {
    qo_indptr_.reserve(kv_len_.size() + 1);
    indptr_.reserve(kv_len_.size() + 1);
    for (int64_t i = 0; i <= sizes.num_requests; ++i) {
      qo_indptr_.push_back(static_cast<int32_t>(i * sizes.q_len));
      indptr_.push_back(static_cast<int32_t>(i * PagesPerRequest(sizes)));
    }
    indices_.resize(static_cast<size_t>(num_copies * pages_per_copy_));
    std::iota(indices_.begin(), indices_.end(), 0);
    std::shuffle(indices_.begin(), indices_.end(), rng);
  }

  int64_t num_pages() const { return static_cast<int64_t>(indices_.size()); }
  TensorView qo_indptr() const { return ViewOf(qo_indptr_); }
  TensorView indptr() const { return ViewOf(indptr_); }
  TensorView kv_len() const { return ViewOf(kv_len_); }
  TensorView last_len() const { return ViewOf(last_len_); }
  TensorView indices(int64_t copy) const {
    return {indices_.data() + copy * pages_per_copy_, DType::kI32, {pages_per_copy_}};
  }

 private:
  static int64_t PagesPerRequest(const PagedBatchSizes& sizes) {
    return (sizes.kv_len + sizes.page_size - 1) / sizes.page_size;
  }
  static TensorView ViewOf(const std::vector<int32_t>& numbers) {
    return {numbers.data(), DType::kI32, {static_cast<int64_t>(numbers.size())}};
  }

  int64_t pages_per_copy_;
  std::vector<int32_t> kv_len_, last_len_, qo_indptr_, indptr_, indices_;
};

}  // namespace flashinfer::bench
