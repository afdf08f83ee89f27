// SPDX-License-Identifier: Apache-2.0
// Batches of equal requests in a paged cache, for the attention benchmarks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "flashinfer/attention/kv_cache.h"
#include "support/host_tensor.h"

namespace flashinfer::bench {

struct AttentionCase {
  DType dtype = DType::kBF16;     ///< of queries and outputs
  DType dtype_kv = DType::kBF16;  ///< of the cache
  int64_t num_requests = 1;
  int64_t q_len = 1;
  int64_t kv_len = 8192;
  int64_t num_qo_heads = 32;
  int64_t num_kv_heads = 8;
  int64_t head_dim = 128;
  int64_t page_size = 16;
};

template <FieldsOf<AttentionCase> Self, class Visit>
void ForEachField(Self& self, Visit&& visit) {
  FLASHINFER_NAMED(dtype)
  FLASHINFER_NAMED(dtype_kv)
  FLASHINFER_NAMED(num_requests)
  FLASHINFER_NAMED(q_len)
  FLASHINFER_NAMED(kv_len)
  FLASHINFER_NAMED(num_qo_heads)
  FLASHINFER_NAMED(num_kv_heads)
  FLASHINFER_NAMED(head_dim)
  FLASHINFER_NAMED(page_size)
}

/// Page tables of `num_copies` batches, each with its own pages of one shuffled pool.
class AttentionBatch {
 public:
  AttentionBatch(const AttentionCase& c, int64_t num_copies)
      : pages_per_request_((c.kv_len + c.page_size - 1) / c.page_size),
        k_(c.dtype_kv, CacheShape(c, num_copies)),
        v_(c.dtype_kv, CacheShape(c, num_copies)),
        q_(c.dtype, {c.num_requests * c.q_len, c.num_qo_heads, c.head_dim}),
        out_(c.dtype, {c.num_requests * c.q_len, c.num_qo_heads, c.head_dim}),
        last_(static_cast<size_t>(c.num_requests),
              static_cast<int32_t>(c.kv_len - (pages_per_request_ - 1) * c.page_size)) {
    std::mt19937_64 rng(1);
    q_.FillNormal(rng);
    FillByRow(k_, rng);
    FillByRow(v_, rng);
    for (int64_t i = 0; i <= c.num_requests; ++i) {
      qo_indptr_.push_back(static_cast<int32_t>(i * c.q_len));
      indptr_.push_back(static_cast<int32_t>(i * pages_per_request_));
    }
    indices_.resize(static_cast<size_t>(k_.view().shape(0)));
    std::iota(indices_.begin(), indices_.end(), 0);
    std::shuffle(indices_.begin(), indices_.end(), rng);
  }

  PageTable pages(int64_t copy) const {
    const auto view = [](const int32_t* data, int64_t size) {
      return TensorView(data, DType::kI32, {size});
    };
    const int64_t num_pages = indptr_.back();
    return {view(indptr_.data(), static_cast<int64_t>(indptr_.size())),
            view(indices_.data() + copy * num_pages, num_pages),
            view(last_.data(), static_cast<int64_t>(last_.size()))};
  }
  TensorView qo_indptr() const {
    return {qo_indptr_.data(), DType::kI32, {static_cast<int64_t>(qo_indptr_.size())}};
  }
  PagedKvCache cache() const { return {k_, v_}; }
  const TensorView& q() const { return q_; }
  const TensorView& out() const { return out_; }

 private:
  Dims CacheShape(const AttentionCase& c, int64_t num_copies) const {
    return {num_copies * c.num_requests * pages_per_request_, c.page_size, c.num_kv_heads,
            c.head_dim};
  }
  /// Random values in the first page, which the others repeat: drawing all of them takes minutes.
  static void FillByRow(test::HostTensor& cache, std::mt19937_64& rng) {
    const TensorView& view = cache;
    test::HostTensor page(view.dtype(), {view.shape(1), view.shape(2), view.shape(3)});
    page.FillNormal(rng);
    const auto bytes = static_cast<size_t>(view.stride(0) * SizeBytes(view.dtype()));
    for (int64_t i = 0; i < view.shape(0); ++i) {
      std::memcpy(view[i].data(), page.view().data(), bytes);
    }
  }

  int64_t pages_per_request_;
  test::HostTensor k_, v_, q_, out_;
  std::vector<int32_t> last_, qo_indptr_, indptr_, indices_;
};

}  // namespace flashinfer::bench
