// SPDX-License-Identifier: Apache-2.0
// Filters of vocabulary rows: where a prefix of the tokens' order ends, and what it keeps.
#include "backends/cpu/simd/vocabulary_block.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

template <class T>
void KeepAs(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
            const KeepOutput& output) {
  const F32 limit = F32::Set(cut.value);
  const F32 factor = F32::Set(output.factor);
  const F32 fill = F32::Set(output.fill);
  int64_t ties_left = cut.num_ties;
  ForEachBlock(row, begin, end, [&](int64_t at, int n, Block& block) {
    float* kept = block.weight;
    for (int i = 0; i < n; i += kWidth) {
      const F32 value = Load(block.value + i);
      Store(kept + i, SelectLess(limit, value, value * factor, fill));
    }
    for (int i = 0; i < n && ties_left > 0; ++i) {
      if (block.value[i] != cut.value) continue;
      kept[i] = cut.value * output.factor;
      --ties_left;
    }
    T* out = static_cast<T*>(output.out) + at;
    for (int i = 0; i < n; i += kWidth) {
      Store(out + i, Load(kept + i), n - i < kWidth ? n - i : kWidth);
    }
    return true;
  });
}

}  // namespace

void Count(const VocabularyRow& row, int64_t begin, int64_t end, const KeyBits& bits,
           Histogram& histogram) {
  const int prefix_shift = bits.shift + bits.num_bits;
  const uint32_t mask = (1u << bits.num_bits) - 1;
  ForEachBlock(row, begin, end, [&](int64_t, int n, const Block& block) {
    for (int i = 0; i < n; ++i) {
      const uint64_t key = KeyOfBits(__builtin_bit_cast(uint32_t, block.value[i]));
      if ((key >> prefix_shift) != bits.prefix) continue;
      const uint32_t bin = static_cast<uint32_t>(key >> bits.shift) & mask;
      ++histogram.count[bin];
      histogram.mass[bin] += static_cast<double>(block.weight[i]);
    }
    return true;
  });
}

CoarseMass Coarse(const VocabularyRow& row, int64_t begin, int64_t end, const float* limits) {
  constexpr int kLimits = CoarseMass::kNumLimits;
  const F32 zero = F32::Set(0.0f);
  const F32 one = F32::Set(1.0f);
  F32 counts[kLimits];  // below 2^24 in each lane
  for (F32& count : counts) count = zero;
  CoarseMass result{};
  ForEachBlock(row, begin, end, [&](int64_t, int n, const Block& block) {
    F32 masses[kLimits];
    for (F32& mass : masses) mass = zero;
    for (int i = 0; i < n; i += kWidth) {
      const int lanes = n - i < kWidth ? n - i : kWidth;
      const F32 value = SelectFirst(lanes, Load(block.value + i), F32::Set(-kInfinity));
      const F32 weight = Load(block.weight + i);
#pragma GCC unroll 8
      for (int j = 0; j < kLimits; ++j) {
        const F32 limit = F32::Set(limits[j]);
        masses[j] = masses[j] + SelectLess(limit, value, weight, zero);
        counts[j] = counts[j] + SelectLess(limit, value, one, zero);
      }
    }
    for (int j = 0; j < kLimits; ++j) result.mass[j] += static_cast<double>(Sum(masses[j]));
    result.total += SumOf(block.weight, n);
    return true;
  });
  for (int j = 0; j < kLimits; ++j) {
    float lanes[kWidth];
    Store(lanes, counts[j]);
    for (float count : lanes) result.count[j] += static_cast<int64_t>(count);
  }
  return result;
}

int64_t Collect(const VocabularyRow& row, int64_t begin, int64_t end, float low, float high,
                float* values) {
  int64_t count = 0;
  ForEachBlock(row, begin, end, [&](int64_t, int n, const Block& block) {
    for (int i = 0; i < n; ++i) {
      const float value = block.value[i];
      values[count] = value;
      count += static_cast<int64_t>(value > low) & static_cast<int64_t>(value <= high);
    }
    return true;
  });
  return count;
}

void Keep(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
          const KeepOutput& output) {
  if (output.dtype == DType::kF32) return KeepAs<float>(row, begin, end, cut, output);
  if (output.dtype == DType::kF16) return KeepAs<F16>(row, begin, end, cut, output);
  KeepAs<BF16>(row, begin, end, cut, output);
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
