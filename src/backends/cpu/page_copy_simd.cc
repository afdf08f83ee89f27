// SPDX-License-Identifier: Apache-2.0
// Copies keys and values to their slots in a paged cache, or back, converting where the cache's
// dtype differs. Bound by memory.
#include "backends/cpu/page_copy.h"
#include "backends/cpu/simd/quantize_store.h"
#include "backends/cpu/simd/row_vectors.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

template <class From, class To>
void CopyRow(const From* from, To* to, int64_t size, [[maybe_unused]] F32 factor) {
  WriteRow(to, false, size, [&](int64_t i, auto lanes) {
    const F32 x = lanes.LoadFrom(from + i);
    return sizeof(From) == 1 || sizeof(To) == 1 ? x * factor : x;
  });
}

template <class T>
void CopyRow(const T* from, T* to, int64_t size, F32) {
  __builtin_memcpy(to, from, static_cast<size_t>(size) * sizeof(T));
}

template <class Row, class Cached, bool kGathers>
void Tokens(const PageCopyParams& p, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    if (p.batch_indices[token] < 0) continue;
    const int64_t position = p.positions[token];
    const int64_t page = p.indices[p.indptr[p.batch_indices[token]] + position / p.page_size];
    const int64_t slot = position % p.page_size;
    for (const PageCopyRows& part : p.parts) {
      const F32 factor = F32::Set(kGathers ? part.scale : 1.0f / part.scale);
      Row* row = static_cast<Row*>(part.rows) + token * part.rows_stride_token;
      Cached* cached = static_cast<Cached*>(part.cache) + page * part.cache_stride_page +
                       slot * part.cache_stride_slot;
      // Heads that lie side by side on both sides are one.
      const bool is_dense =
          part.rows_stride_head == part.head_dim && part.cache_stride_head == part.head_dim;
      const int64_t num_heads = is_dense ? 1 : p.num_heads;
      const int64_t size = is_dense ? p.num_heads * part.head_dim : part.head_dim;
      for (int64_t head = 0; head < num_heads; ++head) {
        Row* outside = row + head * part.rows_stride_head;
        Cached* inside = cached + head * part.cache_stride_head;
        if constexpr (kGathers) {
          CopyRow(static_cast<const Cached*>(inside), outside, size, factor);
        } else {
          CopyRow(static_cast<const Row*>(outside), inside, size, factor);
        }
      }
    }
  }
}

template <class Row, bool kGathers>
void TokensOf(const PageCopyParams& p, int64_t begin, int64_t end) {
  if (p.dtype_kv == DType::kF32) return Tokens<Row, float, kGathers>(p, begin, end);
  if (p.dtype_kv == DType::kF16) return Tokens<Row, F16, kGathers>(p, begin, end);
  if (p.dtype_kv == DType::kE4M3) return Tokens<Row, E4M3, kGathers>(p, begin, end);
  if (p.dtype_kv == DType::kE5M2) return Tokens<Row, E5M2, kGathers>(p, begin, end);
  if (p.dtype_kv == DType::kI8) return Tokens<Row, int8_t, kGathers>(p, begin, end);
  Tokens<Row, BF16, kGathers>(p, begin, end);
}

template <bool kGathers>
void TokensOfAny(const PageCopyParams& p, int64_t begin, int64_t end) {
  if (p.dtype == p.dtype_kv) {
    const int64_t size = SizeBytes(p.dtype);
    if (size == 1) return Tokens<uint8_t, uint8_t, kGathers>(p, begin, end);
    if (size == 2) return Tokens<BF16, BF16, kGathers>(p, begin, end);
    if (size == 4) return Tokens<float, float, kGathers>(p, begin, end);
    return Tokens<int64_t, int64_t, kGathers>(p, begin, end);
  }
  if (p.dtype == DType::kF32) return TokensOf<float, kGathers>(p, begin, end);
  if (p.dtype == DType::kF16) return TokensOf<F16, kGathers>(p, begin, end);
  TokensOf<BF16, kGathers>(p, begin, end);
}

}  // namespace

void PageAppendTokens(const PageCopyParams& p, int64_t begin, int64_t end) {
  TokensOfAny<false>(p, begin, end);
}

void PageGatherTokens(const PageCopyParams& p, int64_t begin, int64_t end) {
  TokensOfAny<true>(p, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
