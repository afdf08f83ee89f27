// SPDX-License-Identifier: Apache-2.0
// The k-th largest of some values, and lists of a row's values from a bound on.
#include "backends/cpu/simd/vocabulary_block.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

inline uint32_t KeyOf(float x) { return KeyOfBits(__builtin_bit_cast(uint32_t, x)); }

/// The first `n` lanes of `p`, -inf in the others.
inline F32 LoadOrLow(const float* p, int64_t n) {
  if (n >= kWidth) return Load(p);
  const int lanes = static_cast<int>(n);
  return SelectFirst(lanes, Load(p, lanes), F32::Set(-kInfinity));
}

struct Reach {
  int64_t count;
  float least;
};

/// How many values are not below `limit`, and the least of them.
Reach ReachOf(const float* values, int64_t count, float limit) {
  const F32 edge = F32::Set(limit);
  int64_t reached = 0;
  F32 least = F32::Set(-kInfinity);
  for (int64_t i = 0; i < count; i += kWidth) {
    const F32 value = LoadOrLow(values + i, count - i);
    reached += __builtin_popcount(NotBelowBits(value, edge));
    least = Max(SelectLess(value, edge, least, F32::Set(0.0f) - value), least);
  }
  return {reached, -MaxLane(least)};
}

template <class T>
int64_t ListAs(const VocabularyRow& row, int64_t begin, int64_t end, const ListBound& bound,
               const ListedTokens& tokens) {
  constexpr uint32_t kAll = (1u << kWidth) - 1;
  const T* x = static_cast<const T*>(row.data);
  const F32 limit = F32::Set(bound.value);
  int64_t count = 0;
  const float* maxima = bound.maxima;
  for (int64_t at = begin; at < end; at += kBlock, maxima += kWidth) {
    if (!row.is_uniform && NotBelowBits(Load(maxima), limit) == 0) continue;
    const int64_t stop = end - at < kBlock ? end : at + kBlock;
    for (int64_t i = at; i < stop; i += kWidth) {
      const int lanes = stop - i < kWidth ? static_cast<int>(stop - i) : kWidth;
      const F32 value = Canonical(row, Load(x + i, lanes));
      uint32_t bits = NotBelowBits(value, limit) & (kAll >> (kWidth - lanes));
      if (bits == 0) continue;
      float found[kWidth];
      Store(found, value);
      for (; bits != 0; bits &= bits - 1) {
        const int lane = __builtin_ctz(bits);
        tokens.values[count] = found[lane];
        tokens.indices[count++] = static_cast<int32_t>(i + lane);
      }
    }
  }
  return count;
}

}  // namespace

float KthLargest(const float* values, int64_t count, int64_t k) {
  F32 high_lanes = F32::Set(-kInfinity);
  F32 low_lanes = F32::Set(-kInfinity);
  for (int64_t i = 0; i < count; i += kWidth) {
    const F32 value = LoadOrLow(values + i, count - i);
    high_lanes = Max(value, high_lanes);
    low_lanes = Max(F32::Set(0.0f) - value, low_lanes);
  }
  // At least k values are not below the one of key `low`, fewer than k are above that of `high`.
  uint32_t low = KeyOf(-MaxLane(low_lanes));
  uint32_t high = KeyOf(MaxLane(high_lanes));
  while (low < high) {
    const uint32_t middle = high - (high - low) / 2;
    const Reach reach = ReachOf(values, count, ValueOfKey(middle));
    if (reach.count == k) return reach.least;
    if (reach.count > k) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return ValueOfKey(low);
}

int64_t List(const VocabularyRow& row, int64_t begin, int64_t end, const ListBound& bound,
             const ListedTokens& tokens) {
  if (row.dtype == DType::kF32) return ListAs<float>(row, begin, end, bound, tokens);
  if (row.dtype == DType::kF16) return ListAs<F16>(row, begin, end, bound, tokens);
  return ListAs<BF16>(row, begin, end, bound, tokens);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
