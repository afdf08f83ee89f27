// SPDX-License-Identifier: Apache-2.0
// Cases and batches of the decode and prefill benchmarks.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

#include "core/fields.h"
#include "flashinfer/attention/kv_cache.h"
#include "paged_batch.h"
#include "support/device.h"
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

/// Queries, outputs, cache and page tables of `num_copies` batches.
class AttentionBatch {
 public:
  AttentionBatch(const AttentionCase& c, int64_t num_copies)
      : AttentionBatch(c, num_copies, std::mt19937_64(1)) {}

  PageTable pages(int64_t copy, test::DeviceCopies& on) const {
    return {tables_.indptr(), on(tables_.indices(copy)), tables_.last_len()};
  }
  TensorView qo_indptr() const { return tables_.qo_indptr(); }
  PagedKvCache cache(test::DeviceCopies& on) const { return {on(k_.view()), on(v_.view())}; }
  const test::HostTensor& q() const { return q_; }
  const test::HostTensor& out() const { return out_; }

 private:
  AttentionBatch(const AttentionCase& c, int64_t num_copies, std::mt19937_64 rng)
      : tables_({c.num_requests, c.q_len, c.kv_len, c.page_size}, num_copies, rng),
        k_(c.dtype_kv, CacheShape(c), rng),
        v_(c.dtype_kv, CacheShape(c), rng),
        q_(c.dtype, {c.num_requests * c.q_len, c.num_qo_heads, c.head_dim}),
        out_(c.dtype, q_.view().shape()) {
    q_.FillNormal(rng);
  }
  Dims CacheShape(const AttentionCase& c) const {
    return {tables_.num_pages(), c.page_size, c.num_kv_heads, c.head_dim};
  }

  PagedBatch tables_;
  PagedCache k_, v_;
  test::HostTensor q_, out_;
};

}  // namespace flashinfer::bench
