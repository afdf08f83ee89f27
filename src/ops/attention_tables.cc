// SPDX-License-Identifier: Apache-2.0
// Reads and checks the tables of an attention batch: lengths, pages and masks.
#include <algorithm>
#include <limits>

#include "core/check.h"
#include "ops/attention.h"

namespace flashinfer {
namespace {

/// Where each request's mask begins; bits are packed into whole bytes a request.
void ReadCustomMask(const TensorView& custom, AttentionTables& tables) {
  CheckTensor("mask.custom", custom)
      .On(tables.device)
      .IsOneOf({DType::kBool, DType::kU8})
      .Contiguous();
  MaskTables& mask = tables.mask;
  mask.custom = custom.data();
  mask.is_packed = custom.dtype() == DType::kU8;
  mask.custom_begin.clear();
  int64_t end = 0;
  for (size_t b = 0; b < tables.kv_len.size(); ++b) {
    mask.custom_begin.push_back(end);
    const int64_t size = tables.q_len[b] * tables.kv_len[b];
    end += mask.is_packed ? (size + 7) / 8 : size;
  }
  FLASHINFER_CHECK(custom.num_elements() == end,
                   "mask.custom: has {} {}, expected {}, q_len times kv_len of every request{}",
                   custom.num_elements(), mask.is_packed ? "bytes" : "values", end,
                   mask.is_packed ? " in whole bytes of 8" : "");
}

void ReadItems(const AttentionMask& from, AttentionTables& tables) {
  const int64_t num_requests = tables.num_requests();
  CheckTensor("mask.prefix_len", from.prefix_len).On({}).Is(DType::kI32).Shape({num_requests});
  CheckTensor("mask.token_pos_in_items", from.token_pos_in_items)
      .On(tables.device)
      .Is(DType::kI32)
      .Shape({num_requests, -1});
  MaskTables& mask = tables.mask;
  mask.token_pos_in_items = from.token_pos_in_items;
  mask.prefix_len.clear();
  for (int64_t b = 0; b < num_requests; ++b) {
    const int32_t prefix = from.prefix_len.data_as<const int32_t>()[b * from.prefix_len.stride(0)];
    const int64_t kv_len = tables.kv_len[static_cast<size_t>(b)];
    FLASHINFER_CHECK(prefix >= 0 && prefix <= kv_len,
                     "mask.prefix_len[{}]: is {}, expected 0 to the request's kv_len, {}", b,
                     prefix, kv_len);
    FLASHINFER_CHECK(kv_len - prefix <= from.token_pos_in_items.shape(1),
                     "mask.token_pos_in_items: has {} tokens a request, request {} has {} after "
                     "its prefix",
                     from.token_pos_in_items.shape(1), b, kv_len - prefix);
    mask.prefix_len.push_back(prefix);
  }
}

constexpr int64_t kMostKeys = std::numeric_limits<int32_t>::max() / 2;

}  // namespace

void ReadPageTable(const PageTable& pages, int32_t page_size, AttentionTables& tables) {
  FLASHINFER_CHECK(page_size > 0, "page_size: is {}, expected 1 or more", page_size);
  CheckIndptr("indptr", pages.indptr);
  const int64_t num_requests = pages.indptr.shape(0) - 1;
  const int32_t* indptr = pages.indptr.data_as<const int32_t>();
  const int64_t stride = pages.indptr.stride(0);
  const int64_t num_pages = indptr[num_requests * stride];
  CheckTensor("indices", pages.indices).On(tables.device).Is(DType::kI32).Rank(1);
  FLASHINFER_CHECK(pages.indices.shape(0) >= num_pages, "indices: has {} pages, indptr ends at {}",
                   pages.indices.shape(0), num_pages);
  CheckTensor("last_page_len", pages.last_page_len).On({}).Is(DType::kI32).Shape({num_requests});
  const int32_t* last = pages.last_page_len.data_as<const int32_t>();
  tables.kv_len.resize(static_cast<size_t>(num_requests));
  tables.kv_begin.resize(static_cast<size_t>(num_requests) + 1);
  for (int64_t b = 0; b < num_requests; ++b) {
    const int64_t count = indptr[(b + 1) * stride] - indptr[b * stride];
    const int64_t last_len = last[b * pages.last_page_len.stride(0)];
    FLASHINFER_CHECK(count == 0 || (last_len >= 1 && last_len <= page_size),
                     "last_page_len[{}]: is {}, accepted: 1 to page_size, {}", b, last_len,
                     page_size);
    tables.kv_begin[static_cast<size_t>(b)] = indptr[b * stride];
    tables.kv_len[static_cast<size_t>(b)] = count == 0 ? 0 : (count - 1) * page_size + last_len;
  }
  tables.kv_begin[static_cast<size_t>(num_requests)] = num_pages;
  tables.pages = pages.indices.data_as<const int32_t>();
  tables.pages_stride = pages.indices.stride(0);
}

DeviceLengths ReadDevicePageTable(const PageTable& pages, int32_t page_size,
                                  AttentionTables& tables, std::string_view lengths_name) {
  FLASHINFER_CHECK(page_size > 0, "page_size: is {}, expected 1 or more", page_size);
  CheckTensor(lengths_name, pages.last_page_len).On(tables.device).Is(DType::kI32).Rank(1);
  const int64_t max_requests = pages.last_page_len.shape(0);
  CheckTensor("indptr", pages.indptr).On(tables.device).Is(DType::kI32).Shape({max_requests + 1});
  CheckTensor("indices", pages.indices).On(tables.device).Is(DType::kI32).Rank(1);
  const int64_t max_pages = pages.indices.shape(0);
  FLASHINFER_CHECK(max_pages <= kMostKeys / page_size,
                   "indices: has {} pages of {} keys, at most {} keys together are accepted",
                   max_pages, page_size, kMostKeys);
  tables.kv_len.assign(static_cast<size_t>(max_requests), 0);
  tables.kv_begin.assign(static_cast<size_t>(max_requests) + 1, 0);
  tables.pages = pages.indices.data_as<const int32_t>();
  tables.pages_stride = pages.indices.stride(0);
  return {.indptr = pages.indptr.data_as<const int32_t>(),
          .last_page_len = pages.last_page_len.data_as<const int32_t>(),
          .indptr_stride = pages.indptr.stride(0),
          .last_page_len_stride = pages.last_page_len.stride(0),
          .max_requests = static_cast<int32_t>(max_requests),
          .max_pages = static_cast<int32_t>(max_pages),
          .page_size = page_size};
}

DeviceLengths ReadDeviceKvIndptr(const TensorView& kv_indptr, int64_t max_keys,
                                 AttentionTables& tables) {
  CheckTensor("kv_indptr", kv_indptr).On(tables.device).Is(DType::kI32).Rank(1);
  const int64_t max_requests = kv_indptr.shape(0) - 1;
  FLASHINFER_CHECK(max_requests >= 0, "kv_indptr: is empty, expected one value more than parts");
  FLASHINFER_CHECK(max_keys >= 0 && max_keys <= kMostKeys, "max_keys: is {}, accepted: 0 to {}",
                   max_keys, kMostKeys);
  tables.kv_len.assign(static_cast<size_t>(max_requests), 0);
  tables.kv_begin.assign(static_cast<size_t>(max_requests) + 1, 0);
  tables.kv_begin.back() = max_keys;
  tables.pages = nullptr;
  tables.pages_stride = 1;
  // Pages of one key, of which the last one holds one whatever its length.
  const auto* const indptr = kv_indptr.data_as<const int32_t>();
  return {.indptr = indptr,
          .last_page_len = indptr,
          .indptr_stride = kv_indptr.stride(0),
          .last_page_len_stride = kv_indptr.stride(0),
          .max_requests = static_cast<int32_t>(max_requests),
          .max_pages = static_cast<int32_t>(max_keys),
          .page_size = 1};
}

void ReadDeviceQueryLengths(const TensorView& qo_indptr, int64_t max_tokens,
                            AttentionTables& tables, DeviceLengths& lengths) {
  const int64_t num_requests = tables.num_requests();
  if (!qo_indptr.defined()) {
    ReadQueryLengths({}, tables);
    lengths.max_tokens = num_requests;
    return;
  }
  CheckTensor("qo_indptr", qo_indptr).On(tables.device).Is(DType::kI32).Shape({num_requests + 1});
  FLASHINFER_CHECK(max_tokens >= 0, "max_tokens: is {}, expected 0 or more", max_tokens);
  tables.q_len.assign(static_cast<size_t>(num_requests), 0);
  tables.q_begin.assign(static_cast<size_t>(num_requests) + 1, 0);
  tables.q_begin.back() = max_tokens;
  lengths.qo_indptr = qo_indptr.data_as<const int32_t>();
  lengths.qo_indptr_stride = qo_indptr.stride(0);
  lengths.max_tokens = max_tokens;
}

void ReadKvIndptr(const TensorView& kv_indptr, AttentionTables& tables) {
  CheckIndptr("kv_indptr", kv_indptr);
  const auto num_requests = static_cast<size_t>(kv_indptr.shape(0)) - 1;
  tables.kv_len.resize(num_requests);
  tables.kv_begin.resize(num_requests + 1);
  for (size_t b = 0; b <= num_requests; ++b) {
    tables.kv_begin[b] =
        kv_indptr.data_as<const int32_t>()[static_cast<int64_t>(b) * kv_indptr.stride(0)];
    if (b > 0) tables.kv_len[b - 1] = tables.kv_begin[b] - tables.kv_begin[b - 1];
  }
  tables.pages = nullptr;
  tables.pages_stride = 1;
}

void ReadQueryLengths(const TensorView& qo_indptr, AttentionTables& tables) {
  const size_t num_requests = tables.kv_len.size();
  tables.q_len.resize(num_requests);
  tables.q_begin.resize(num_requests + 1);
  if (!qo_indptr.defined()) {
    for (size_t b = 0; b <= num_requests; ++b) tables.q_begin[b] = static_cast<int64_t>(b);
    std::fill(tables.q_len.begin(), tables.q_len.end(), 1);
    return;
  }
  CheckIndptr("qo_indptr", qo_indptr);
  CheckTensor("qo_indptr", qo_indptr).Shape({static_cast<int64_t>(num_requests) + 1});
  for (size_t b = 0; b <= num_requests; ++b) {
    tables.q_begin[b] =
        qo_indptr.data_as<const int32_t>()[static_cast<int64_t>(b) * qo_indptr.stride(0)];
    if (b > 0) {
      tables.q_len[b - 1] = static_cast<int32_t>(tables.q_begin[b] - tables.q_begin[b - 1]);
    }
  }
}

void ReadMask(MaskMode mode, const AttentionMask& mask, AttentionTables& tables) {
  const auto must_fit = [&](std::string_view name, const TensorView& tensor, MaskMode of) {
    FLASHINFER_CHECK(mode == of || !tensor.defined(), "{}: was given, but mask is {}, not {}", name,
                     Name(mode), Name(of));
  };
  must_fit("mask.custom", mask.custom, MaskMode::kCustom);
  must_fit("mask.prefix_len", mask.prefix_len, MaskMode::kMultiItem);
  must_fit("mask.token_pos_in_items", mask.token_pos_in_items, MaskMode::kMultiItem);
  if (mode == MaskMode::kCustom) ReadCustomMask(mask.custom, tables);
  if (mode == MaskMode::kMultiItem) ReadItems(mask, tables);
}

}  // namespace flashinfer
