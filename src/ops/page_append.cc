// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache: check, choose, run.
#include "ops/page_append.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "dispatch/choose.h"
#include "ops/attention.h"

namespace flashinfer {
namespace {

void CheckTokens(const TensorView& k, const TensorView& v, const TensorView& batch_indices,
                 const TensorView& positions) {
  CheckTensor("k", k).On({}).Rank(3).LastDimDense();
  CheckTensor("v", v).On({}).Is(k.dtype()).Shape({k.shape(0), k.shape(1), -1}).LastDimDense();
  CheckTensor("batch_indices", batch_indices)
      .On({})
      .Is(DType::kI32)
      .Shape({k.shape(0)})
      .Contiguous();
  CheckTensor("positions", positions).On({}).Is(DType::kI32).Shape({k.shape(0)}).Contiguous();
}

void CheckCache(const TensorView& k, const TensorView& v, const PagedKvCache& cache) {
  CheckTensor("cache.k", cache.k).Rank(4);
  const int64_t page_size = cache.k.shape(cache.layout == KvLayout::kNHD ? 1 : 2);
  FLASHINFER_CHECK(page_size > 0, "cache.k: page_size is 0, expected 1 or more");
  CheckCacheTensor("cache.k", cache.k, cache.layout, cache.k.dtype(), page_size, k.shape(1),
                   k.shape(2));
  CheckCacheTensor("cache.v", cache.v, cache.layout, cache.k.dtype(), page_size, v.shape(1),
                   v.shape(2));
}

/// Every token's request, position and page are there.
void CheckSlots(const TensorView& batch_indices, const TensorView& positions,
                const AttentionLengths& lengths, const PagedKvCache& cache, int64_t page_size) {
  const int64_t num_pages = std::min(cache.k.shape(0), cache.v.shape(0));
  for (int64_t i = 0; i < positions.shape(0); ++i) {
    const int32_t b = batch_indices.data_as<const int32_t>()[i];
    FLASHINFER_CHECK(b >= 0 && b < lengths.num_requests(),
                     "batch_indices[{}]: is {}, accepted: 0 to {}", i, b,
                     lengths.num_requests() - 1);
    const int64_t kv_len = lengths.kv_len[static_cast<size_t>(b)];
    const int32_t position = positions.data_as<const int32_t>()[i];
    FLASHINFER_CHECK(position >= 0 && position < kv_len,
                     "positions[{}]: is {}, request {} has kv_len {}", i, position, b, kv_len);
    const int64_t at = lengths.page_begin[static_cast<size_t>(b)] + position / page_size;
    const int32_t page = lengths.pages[at];
    FLASHINFER_CHECK(page >= 0 && page < num_pages,
                     "indices[{}]: is {}, the cache has pages 0 to {}", at, page, num_pages - 1);
  }
}

PageAppendRows RowsOf(const TensorView& from, const TensorView& cache, KvLayout layout) {
  const PageStrides strides = StridesOf(cache, layout);
  return {from.data(),  cache.data(),  from.stride(0), from.stride(1),
          strides.page, strides.token, strides.head,   from.shape(2)};
}

}  // namespace

void AppendPagedKvCache(const TensorView& k, const TensorView& v, const TensorView& batch_indices,
                        const TensorView& positions, const PagedKvCache& cache,
                        const PageTable& pages, Backend backend, Stream) {
  if (LogLevel() > 0) [[unlikely]] {
    LogCall("append_paged_kv_cache", {{"k", k},
                                      {"v", v},
                                      {"batch_indices", batch_indices},
                                      {"positions", positions},
                                      {"cache.k", cache.k},
                                      {"cache.v", cache.v},
                                      {"cache.layout", std::string(Name(cache.layout))},
                                      {"indptr", pages.indptr},
                                      {"indices", pages.indices},
                                      {"last_page_len", pages.last_page_len}});
  }
  CheckTokens(k, v, batch_indices, positions);
  CheckCache(k, v, cache);
  const int64_t page_size = cache.k.shape(cache.layout == KvLayout::kNHD ? 1 : 2);
  // Kept by the thread, so that repeated calls allocate nothing.
  thread_local AttentionLengths lengths;
  ReadPageTable(pages, static_cast<int32_t>(page_size), lengths);
  CheckTensor("indptr", pages.indptr).Contiguous();
  CheckTensor("indices", pages.indices).Contiguous();
  CheckSlots(batch_indices, positions, lengths, cache, page_size);
  const auto& run = Choose<PageAppendOp>({k.dtype(), cache.k.dtype()}, backend);
  run({.rows = {RowsOf(k, cache.k, cache.layout), RowsOf(v, cache.v, cache.layout)},
       .batch_indices = batch_indices.data_as<const int32_t>(),
       .positions = positions.data_as<const int32_t>(),
       .indptr = pages.indptr.data_as<const int32_t>(),
       .indices = pages.indices.data_as<const int32_t>(),
       .num_tokens = k.shape(0),
       .num_heads = k.shape(1),
       .page_size = page_size,
       .dtype = k.dtype(),
       .dtype_kv = cache.k.dtype()});
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("append_paged_kv_cache", {{"cache.k", cache.k}, {"cache.v", cache.v}});
}

}  // namespace flashinfer
