// SPDX-License-Identifier: Apache-2.0
// Copies new keys and values into their slots, converting where the cache's dtype differs. Bound by
// memory.
#include "backends/cpu/page_append.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

template <class From, class To>
void Row(const From* from, To* to, int64_t size) {
  constexpr int kWidth = F32::kWidth;
  int64_t i = 0;
  for (; i + kWidth <= size; i += kWidth) Store(to + i, Load(from + i));
  if (i < size) {
    const int n = static_cast<int>(size - i);
    Store(to + i, Load(from + i, n), n);
  }
}

template <class T>
void Row(const T* from, T* to, int64_t size) {
  __builtin_memcpy(to, from, static_cast<size_t>(size) * sizeof(T));
}

template <class From, class To>
void Tokens(const PageAppendParams& p, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t position = p.positions[token];
    const int64_t page = p.indices[p.indptr[p.batch_indices[token]] + position / p.page_size];
    const int64_t slot = position % p.page_size;
    for (int i = 0; i < 2; ++i) {
      const PageAppendRows& rows = p.rows[i];
      const From* from = static_cast<const From*>(rows.from) + token * rows.from_stride_token;
      To* to = static_cast<To*>(rows.cache) + page * rows.stride_page + slot * rows.stride_slot;
      for (int64_t head = 0; head < p.num_heads; ++head) {
        Row(from + head * rows.from_stride_head, to + head * rows.stride_head, rows.head_dim);
      }
    }
  }
}

template <class From>
void TokensOf(const PageAppendParams& p, int64_t begin, int64_t end) {
  if (p.dtype_kv == DType::kF32) return Tokens<From, float>(p, begin, end);
  if (p.dtype_kv == DType::kF16) return Tokens<From, F16>(p, begin, end);
  Tokens<From, BF16>(p, begin, end);
}

}  // namespace

void PageAppendTokens(const PageAppendParams& p, int64_t begin, int64_t end) {
  if (p.dtype == DType::kF32) return TokensOf<float>(p, begin, end);
  if (p.dtype == DType::kF16) return TokensOf<F16>(p, begin, end);
  TokensOf<BF16>(p, begin, end);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
