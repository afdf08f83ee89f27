// SPDX-License-Identifier: Apache-2.0
// Appending to a paged KV cache, and gathering from it: check, choose, run.
#include "ops/page_copy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "cuda/device.h"
#include "dispatch/choose.h"
#include "ops/attention.h"

namespace flashinfer {
namespace {

/// What the caller calls the tensors.
struct PageCopyNames {
  std::string_view k, v, k_cache, v_cache;
};
constexpr PageCopyNames kKvNames{"k", "v", "cache.k", "cache.v"};
constexpr PageCopyNames kMlaNames{"ckv", "kpe", "ckv_cache", "kpe_cache"};

/// Which tokens go where, and how.
struct PageCopyTokens {
  const TensorView& batch_indices;
  const TensorView& positions;
  const PageTable& pages;
  const PageCopyOptions& options;
};

/// One call, with latent attention's tensors as those of one head.
struct PageCopyCall {
  const PageCopyNames& names;
  TensorView k;  // [num_tokens, num_heads, head_dim]
  TensorView v;
  PagedKvCache cache;
  const PageCopyTokens& tokens;

  int64_t page_size() const { return cache.k.shape(cache.layout == KvLayout::kNHD ? 1 : 2); }
};

void CheckTokens(const PageCopyCall& c) {
  const Device device = c.k.device();
  CheckTensor(c.names.k, c.k).LastDimDense();
  CheckTensor(c.names.v, c.v)
      .On(device)
      .Is(c.k.dtype())
      .Shape({c.k.shape(0), c.k.shape(1), -1})
      .LastDimDense();
  for (const auto& [name, tensor] :
       {std::pair<std::string_view, const TensorView&>{"batch_indices", c.tokens.batch_indices},
        std::pair<std::string_view, const TensorView&>{"positions", c.tokens.positions}}) {
    CheckTensor(name, tensor).On(device).Is(DType::kI32).Shape({c.k.shape(0)}).Contiguous();
  }
}

void CheckCache(const PageCopyCall& c) {
  const int64_t page_size = c.page_size();
  const DType dtype = c.cache.k.dtype();
  FLASHINFER_CHECK(page_size > 0, "{}: page_size is 0, expected 1 or more", c.names.k_cache);
  CheckCacheTensor(c.names.k_cache, c.cache.k, c.cache.layout, dtype, page_size, c.k.shape(1),
                   c.k.shape(2), c.k.device());
  CheckCacheTensor(c.names.v_cache, c.cache.v, c.cache.layout, dtype, page_size, c.v.shape(1),
                   c.v.shape(2), c.k.device());
  const bool is_scaled = SizeBytes(dtype) == 1 && dtype != c.k.dtype();
  for (const auto& [name, scale] : {std::pair{"k_scale", c.tokens.options.k_scale},
                                    std::pair{"v_scale", c.tokens.options.v_scale}}) {
    FLASHINFER_CHECK(std::isfinite(scale) && scale > 0, "{}: is {}, expected a number above 0",
                     name, scale);
    FLASHINFER_CHECK(is_scaled || scale == 1, "{}: is {}, accepted from {} to a cache of {}: 1",
                     name, scale, Name(c.k.dtype()), Name(dtype));
  }
}

/// Every token's request, position and page are there.
void CheckSlots(const PageCopyCall& c, const AttentionTables& lengths) {
  const int64_t num_pages = std::min(c.cache.k.shape(0), c.cache.v.shape(0));
  const int64_t page_size = c.page_size();
  for (int64_t i = 0; i < c.tokens.positions.shape(0); ++i) {
    const int32_t b = c.tokens.batch_indices.data_as<const int32_t>()[i];
    if (b < 0) continue;
    FLASHINFER_CHECK(b < lengths.num_requests(),
                     "batch_indices[{}]: is {}, accepted: up to {}, or negative to leave it out", i,
                     b, lengths.num_requests() - 1);
    const int64_t kv_len = lengths.kv_len[static_cast<size_t>(b)];
    const int32_t position = c.tokens.positions.data_as<const int32_t>()[i];
    FLASHINFER_CHECK(position >= 0 && position < kv_len,
                     "positions[{}]: is {}, request {} has kv_len {}", i, position, b, kv_len);
    const int64_t at = lengths.kv_begin[static_cast<size_t>(b)] + position / page_size;
    const int32_t page = lengths.pages[at];
    FLASHINFER_CHECK(page >= 0 && page < num_pages,
                     "indices[{}]: is {}, the cache has pages 0 to {}", at, page, num_pages - 1);
  }
}

PageCopyRows RowsOf(const TensorView& rows, const TensorView& cache, KvLayout layout, float scale) {
  const PageStrides strides = StridesOf(cache, layout);
  return {rows.data(),   cache.data(), rows.stride(0), rows.stride(1), strides.page,
          strides.token, strides.head, rows.shape(2),  scale};
}

template <class Op>
void RunPageCopy(const PageCopyCall& c, Stream stream) {
  CheckTokens(c);
  CheckCache(c);
  if constexpr (std::is_same_v<Op, PageGatherOp>) {
    CheckTensor(c.names.k, c.k).NoOverlap();
    CheckTensor(c.names.v, c.v).NoOverlap();
  }
  if (c.k.device().type == DeviceType::kCpu) {
    // Kept by the thread, so that repeated calls allocate nothing.
    thread_local AttentionTables lengths;
    ReadPageTable(c.tokens.pages, static_cast<int32_t>(c.page_size()), lengths);
    CheckSlots(c, lengths);
  }
  for (const auto& [name, tensor] :
       {std::pair<std::string_view, const TensorView&>{"indptr", c.tokens.pages.indptr},
        std::pair<std::string_view, const TensorView&>{"indices", c.tokens.pages.indices}}) {
    CheckTensor(name, tensor).On(c.k.device()).Is(DType::kI32).Rank(1).Contiguous();
  }
  const PagedKvCache& cache = c.cache;
  const auto& run = Choose<Op>({c.k.dtype(), cache.k.dtype(), cuda::ArchOf(c.k.device())},
                               c.tokens.options.backend);
  run({.parts = {RowsOf(c.k, cache.k, cache.layout, c.tokens.options.k_scale),
                 RowsOf(c.v, cache.v, cache.layout, c.tokens.options.v_scale)},
       .batch_indices = c.tokens.batch_indices.data_as<const int32_t>(),
       .positions = c.tokens.positions.data_as<const int32_t>(),
       .indptr = c.tokens.pages.indptr.data_as<const int32_t>(),
       .indices = c.tokens.pages.indices.data_as<const int32_t>(),
       .num_tokens = c.k.shape(0),
       .num_heads = c.k.shape(1),
       .page_size = c.page_size(),
       .dtype = c.k.dtype(),
       .dtype_kv = cache.k.dtype(),
       .stream = cuda::StreamOn(c.k.device(), stream)});
}

/// With one head put before the last dimension.
TensorView OneHead(const TensorView& x) {
  Dims shape;
  Dims strides;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == x.rank() - 1) {
      shape.Append(1);
      strides.Append(0);
    }
    shape.Append(x.shape(i));
    strides.Append(x.stride(i));
  }
  return {x.data(), x.dtype(), shape, strides, x.device()};
}

/// Latent attention's call, once its tensors are known to have the right ranks.
PageCopyCall MlaCall(const PageCopyTokens& tokens, const TensorView& ckv, const TensorView& kpe,
                     const TensorView& ckv_cache, const TensorView& kpe_cache) {
  CheckTensor("ckv", ckv).Rank(2);
  CheckTensor("kpe", kpe).Rank(2);
  CheckTensor("ckv_cache", ckv_cache).Rank(3);
  CheckTensor("kpe_cache", kpe_cache).Rank(3);
  return {kMlaNames, OneHead(ckv), OneHead(kpe), {OneHead(ckv_cache), OneHead(kpe_cache)}, tokens};
}

PageCopyCall KvCall(const PageCopyTokens& tokens, const TensorView& k, const TensorView& v,
                    const PagedKvCache& cache) {
  CheckTensor("k", k).Rank(3);
  CheckTensor("cache.k", cache.k).Rank(4);
  return {kKvNames, k, v, cache, tokens};
}

/// The arguments as the caller gave them.
void LogPageCopy(std::string_view op, const PageCopyNames& names, const PageCopyTokens& tokens,
                 const TensorView* const (&tensors)[4], std::string_view layout = "") {
  LogCall(op, {{names.k, *tensors[0]},
               {names.v, *tensors[1]},
               {names.k_cache, *tensors[2]},
               {names.v_cache, *tensors[3]},
               {"cache.layout", std::string(layout)},
               {"batch_indices", tokens.batch_indices},
               {"positions", tokens.positions},
               {"indptr", tokens.pages.indptr},
               {"indices", tokens.pages.indices},
               {"last_page_len", tokens.pages.last_page_len},
               {"k_scale", ValueText(tokens.options.k_scale)},
               {"v_scale", ValueText(tokens.options.v_scale)}});
}

}  // namespace

void AppendPagedKvCache(const TensorView& k, const TensorView& v, const TensorView& batch_indices,
                        const TensorView& positions, const PagedKvCache& cache,
                        const PageTable& pages, const PageCopyOptions& options, Stream stream) {
  const PageCopyTokens tokens{batch_indices, positions, pages, options};
  if (LogLevel() > 0) [[unlikely]] {
    LogPageCopy("append_paged_kv_cache", kKvNames, tokens, {&k, &v, &cache.k, &cache.v},
                Name(cache.layout));
  }
  RunPageCopy<PageAppendOp>(KvCall(tokens, k, v, cache), stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("append_paged_kv_cache", {{"cache.k", cache.k}, {"cache.v", cache.v}});
}

void GatherPagedKvCache(const PagedKvCache& cache, const PageTable& pages,
                        const TensorView& batch_indices, const TensorView& positions,
                        const TensorView& k, const TensorView& v, const PageCopyOptions& options,
                        Stream stream) {
  const PageCopyTokens tokens{batch_indices, positions, pages, options};
  if (LogLevel() > 0) [[unlikely]] {
    LogPageCopy("gather_paged_kv_cache", kKvNames, tokens, {&k, &v, &cache.k, &cache.v},
                Name(cache.layout));
  }
  RunPageCopy<PageGatherOp>(KvCall(tokens, k, v, cache), stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("gather_paged_kv_cache", {{"k", k}, {"v", v}});
}

void AppendPagedMlaKvCache(const TensorView& ckv, const TensorView& kpe,
                           const TensorView& batch_indices, const TensorView& positions,
                           const TensorView& ckv_cache, const TensorView& kpe_cache,
                           const PageTable& pages, const PageCopyOptions& options, Stream stream) {
  const PageCopyTokens tokens{batch_indices, positions, pages, options};
  if (LogLevel() > 0) [[unlikely]] {
    LogPageCopy("append_paged_mla_kv_cache", kMlaNames, tokens,
                {&ckv, &kpe, &ckv_cache, &kpe_cache});
  }
  RunPageCopy<PageAppendOp>(MlaCall(tokens, ckv, kpe, ckv_cache, kpe_cache), stream);
  if (LogLevel() >= 5) [[unlikely]] {
    LogReturn("append_paged_mla_kv_cache", {{"ckv_cache", ckv_cache}, {"kpe_cache", kpe_cache}});
  }
}

void GatherPagedMlaKvCache(const TensorView& ckv_cache, const TensorView& kpe_cache,
                           const PageTable& pages, const TensorView& batch_indices,
                           const TensorView& positions, const TensorView& ckv,
                           const TensorView& kpe, const PageCopyOptions& options, Stream stream) {
  const PageCopyTokens tokens{batch_indices, positions, pages, options};
  if (LogLevel() > 0) [[unlikely]] {
    LogPageCopy("gather_paged_mla_kv_cache", kMlaNames, tokens,
                {&ckv, &kpe, &ckv_cache, &kpe_cache});
  }
  RunPageCopy<PageGatherOp>(MlaCall(tokens, ckv, kpe, ckv_cache, kpe_cache), stream);
  if (LogLevel() >= 5) [[unlikely]]
    LogReturn("gather_paged_mla_kv_cache", {{"ckv", ckv}, {"kpe", kpe}});
}

}  // namespace flashinfer
