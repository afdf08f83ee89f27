// SPDX-License-Identifier: Apache-2.0
// Checks of attention problems, page tables and tensors.
#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/text.h"

namespace flashinfer {

std::string_view Name(KvLayout layout) { return layout == KvLayout::kNHD ? "NHD" : "HND"; }

void CheckAttentionProblem(const AttentionProblem& p) {
  FLASHINFER_CHECK(p.num_kv_heads > 0, "num_kv_heads: is {}, expected 1 or more", p.num_kv_heads);
  FLASHINFER_CHECK(p.num_qo_heads > 0 && p.num_qo_heads % p.num_kv_heads == 0,
                   "num_qo_heads: is {}, expected a multiple of num_kv_heads, {}", p.num_qo_heads,
                   p.num_kv_heads);
  for (const auto& [name, dim] :
       {std::pair{"head_dim_qk", p.head_dim_qk}, std::pair{"head_dim_vo", p.head_dim_vo}}) {
    FLASHINFER_CHECK(dim > 0 && dim % 8 == 0 && dim <= 512,
                     "{}: is {}, accepted: multiples of 8 up to 512", name, dim);
  }
  FLASHINFER_CHECK(p.page_size > 0, "page_size: is {}, expected 1 or more", p.page_size);
  FLASHINFER_CHECK(std::isfinite(p.sm_scale), "sm_scale: is {}, expected a finite number",
                   p.sm_scale);
  FLASHINFER_CHECK(p.logits_soft_cap >= 0 && std::isfinite(p.logits_soft_cap),
                   "logits_soft_cap: is {}, expected a finite number, 0 or more",
                   p.logits_soft_cap);
  FLASHINFER_CHECK(p.window_left >= -1, "window_left: is {}, expected -1 or more", p.window_left);
  FLASHINFER_CHECK(p.fixed_split_size >= 0 && p.fixed_split_size % 64 == 0,
                   "fixed_split_size: is {}, accepted: 0 and multiples of 64", p.fixed_split_size);
}

void ReadPageTable(const PageTable& pages, int32_t page_size, AttentionLengths& lengths) {
  CheckIndptr("indptr", pages.indptr);
  const int64_t num_requests = pages.indptr.shape(0) - 1;
  const int32_t* indptr = pages.indptr.data_as<const int32_t>();
  const int64_t stride = pages.indptr.stride(0);
  const int64_t num_pages = indptr[num_requests * stride];
  CheckTensor("indices", pages.indices).On({}).Is(DType::kI32).Rank(1);
  FLASHINFER_CHECK(pages.indices.shape(0) >= num_pages, "indices: has {} pages, indptr ends at {}",
                   pages.indices.shape(0), num_pages);
  CheckTensor("last_page_len", pages.last_page_len).On({}).Is(DType::kI32).Shape({num_requests});
  const int32_t* last = pages.last_page_len.data_as<const int32_t>();
  lengths.kv_len.resize(static_cast<size_t>(num_requests));
  lengths.page_begin.resize(static_cast<size_t>(num_requests) + 1);
  for (int64_t b = 0; b < num_requests; ++b) {
    const int64_t count = indptr[(b + 1) * stride] - indptr[b * stride];
    const int64_t last_len = last[b * pages.last_page_len.stride(0)];
    FLASHINFER_CHECK(count == 0 || (last_len >= 1 && last_len <= page_size),
                     "last_page_len[{}]: is {}, accepted: 1 to page_size, {}", b, last_len,
                     page_size);
    lengths.page_begin[static_cast<size_t>(b)] = indptr[b * stride];
    lengths.kv_len[static_cast<size_t>(b)] = count == 0 ? 0 : (count - 1) * page_size + last_len;
  }
  lengths.page_begin[static_cast<size_t>(num_requests)] = num_pages;
  lengths.pages = pages.indices.data_as<const int32_t>();
  lengths.pages_stride = pages.indices.stride(0);
}

void ReadQueryLengths(const TensorView& qo_indptr, AttentionLengths& lengths) {
  const size_t num_requests = lengths.kv_len.size();
  lengths.q_len.resize(num_requests);
  lengths.q_begin.resize(num_requests + 1);
  if (!qo_indptr.defined()) {
    for (size_t b = 0; b <= num_requests; ++b) lengths.q_begin[b] = static_cast<int64_t>(b);
    std::fill(lengths.q_len.begin(), lengths.q_len.end(), 1);
    return;
  }
  CheckIndptr("qo_indptr", qo_indptr);
  CheckTensor("qo_indptr", qo_indptr).Shape({static_cast<int64_t>(num_requests) + 1});
  for (size_t b = 0; b <= num_requests; ++b) {
    lengths.q_begin[b] =
        qo_indptr.data_as<const int32_t>()[static_cast<int64_t>(b) * qo_indptr.stride(0)];
    if (b > 0)
      lengths.q_len[b - 1] = static_cast<int32_t>(lengths.q_begin[b] - lengths.q_begin[b - 1]);
  }
}

PageStrides StridesOf(const TensorView& tensor, KvLayout layout) {
  const bool nhd = layout == KvLayout::kNHD;
  return {tensor.stride(0), tensor.stride(nhd ? 1 : 2), tensor.stride(nhd ? 2 : 1)};
}

void CheckCacheTensor(std::string_view name, const TensorView& tensor, KvLayout layout, DType dtype,
                      int64_t page_size, int64_t num_kv_heads, int64_t head_dim) {
  const bool nhd = layout == KvLayout::kNHD;
  CheckTensor(name, tensor)
      .On({})
      .Is(dtype)
      .Shape({-1, nhd ? page_size : num_kv_heads, nhd ? num_kv_heads : page_size, head_dim})
      .LastDimDense();
}

void CheckAttentionTensors(const AttentionProblem& p, const AttentionLengths& lengths,
                           const AttentionTensors& t) {
  const int64_t num_tokens = lengths.num_tokens();
  CheckTensor("q", t.q)
      .On({})
      .Is(p.dtype_q)
      .Shape({num_tokens, p.num_qo_heads, p.head_dim_qk})
      .LastDimDense();
  CheckCacheTensor("cache.k", t.cache.k, t.cache.layout, p.dtype_kv, p.page_size, p.num_kv_heads,
                   p.head_dim_qk);
  CheckCacheTensor("cache.v", t.cache.v, t.cache.layout, p.dtype_kv, p.page_size, p.num_kv_heads,
                   p.head_dim_vo);
  CheckTensor("out", t.out)
      .On({})
      .Is(p.dtype_out)
      .Shape({num_tokens, p.num_qo_heads, p.head_dim_vo})
      .LastDimDense()
      .NoOverlap();
  if (t.lse.defined()) {
    CheckTensor("lse", t.lse)
        .On({})
        .Is(DType::kF32)
        .Shape({num_tokens, p.num_qo_heads})
        .NoOverlap();
  }
  const int64_t num_pages = std::min(t.cache.k.shape(0), t.cache.v.shape(0));
  const int64_t listed = lengths.page_begin.empty() ? 0 : lengths.page_begin.back();
  for (int64_t i = 0; i < listed; ++i) {
    const int32_t page = lengths.pages[i * lengths.pages_stride];
    FLASHINFER_CHECK(page >= 0 && page < num_pages,
                     "indices[{}]: is {}, the cache has pages 0 to {}", i, page, num_pages - 1);
  }
}

}  // namespace flashinfer
