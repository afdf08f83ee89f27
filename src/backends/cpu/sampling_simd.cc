// SPDX-License-Identifier: Apache-2.0
// Pieces of vocabulary rows: extremes, kept weight, the drawn token, softmax; the table of kernels.
#include "backends/cpu/simd/vocabulary_block.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

/// Zeroes the weights of values not above the cut's and returns the sum of the others and the
/// number of ties.
inline Mass CutBlock(const Cut& cut, int n, Block& block) {
  const F32 limit = F32::Set(cut.value);
  const F32 zero = F32::Set(0.0f);
  const F32 one = F32::Set(1.0f);
  F32 ties = zero;
  for (int i = 0; i < n; i += kWidth) {
    const int lanes = n - i < kWidth ? n - i : kWidth;
    const F32 value = Load(block.value + i);
    Store(block.weight + i, SelectLess(limit, value, Load(block.weight + i), zero));
    const F32 not_below = SelectLess(value, limit, zero, one);
    ties = ties + SelectFirst(lanes, SelectLess(limit, value, zero, not_below), zero);
  }
  return {SumOf(block.weight, n), static_cast<int64_t>(Sum(ties))};
}

template <class T>
Extremes ExtremesOf(const T* x, int64_t begin, int64_t end, float* maxima) {
  Extremes result{-kInfinity, kInfinity, begin, false};
  F32 nan = F32::Set(0.0f);
  F32 min = F32::Set(kInfinity);
  int64_t best = -1;  // the block with the first largest value
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t stop = end - at < kBlock ? end : at + kBlock;
    F32 max = F32::Set(-kInfinity);
    int64_t i = at;
    for (; i + kWidth <= stop; i += kWidth) {
      const F32 value = Load(x + i);
      nan = SelectNan(value, nan);
      max = Max(value, max);
      min = Min(value, min);
    }
    if (i < stop) {
      const int lanes = static_cast<int>(stop - i);
      const F32 value = Load(x + i, lanes);
      nan = SelectNan(value, nan);
      max = Max(SelectFirst(lanes, value, F32::Set(-kInfinity)), max);
      min = Min(SelectFirst(lanes, value, F32::Set(kInfinity)), min);
    }
    if (maxima != nullptr) {
      Store(maxima, max);
      maxima += kWidth;
    }
    const float block_max = MaxLane(max);
    if (block_max > result.max) {
      result.max = block_max;
      best = at;
    }
  }
  const float nan_sum = Sum(nan);
  result.has_nan = nan_sum != nan_sum;
  result.min = -MaxLane(F32::Set(0.0f) - min);
  for (int64_t i = best; best >= 0 && i < end; ++i) {
    if (ToFloat(x[i]) != result.max) continue;
    result.max_index = i;
    break;
  }
  return result;
}

Extremes FindExtremes(const VocabularyRow& row, int64_t begin, int64_t end, float* maxima) {
  if (row.dtype == DType::kF32) {
    return ExtremesOf(static_cast<const float*>(row.data), begin, end, maxima);
  }
  if (row.dtype == DType::kF16) {
    return ExtremesOf(static_cast<const F16*>(row.data), begin, end, maxima);
  }
  return ExtremesOf(static_cast<const BF16*>(row.data), begin, end, maxima);
}

Mass Weigh(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut) {
  Mass mass{0, 0};
  ForEachBlock(row, begin, end, [&](int64_t, int n, Block& block) {
    const Mass part = CutBlock(cut, n, block);
    mass.above += part.above;
    mass.num_ties += part.num_ties;
    return true;
  });
  return mass;
}

int64_t Locate(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
               double target) {
  int64_t token = begin;
  int64_t ties_left = cut.num_ties;
  double before = 0;
  ForEachBlock(row, begin, end, [&](int64_t at, int n, Block& block) {
    // Give the kept ties their weight back, then the block's weights are those of kept tokens.
    float kept[kBlock];
    for (int i = 0; i < n; ++i) kept[i] = block.weight[i];
    const Mass mass = CutBlock(cut, n, block);
    if (mass.num_ties > 0) {
      for (int i = 0; i < n && ties_left > 0; ++i) {
        if (block.value[i] != cut.value) continue;
        block.weight[i] = kept[i];
        --ties_left;
      }
    }
    const double sum = SumOf(block.weight, n);
    const bool is_last = before + sum >= target;
    for (int i = 0; is_last && i < n && before < target; ++i) {
      if (block.weight[i] <= 0) continue;
      token = at + i;
      before += static_cast<double>(block.weight[i]);
    }
    if (is_last) return false;
    before += sum;
    for (int i = n - 1; sum > 0 && i >= 0; --i) {
      if (block.weight[i] <= 0) continue;
      token = at + i;
      break;
    }
    return true;
  });
  return token;
}

float Weight(const VocabularyRow& row, float value) {
  float lanes[kWidth];
  Store(lanes, WeightOf(row, F32::Set(value)));
  return lanes[0];
}

double Exponentiate(const VocabularyRow& row, int64_t begin, int64_t end, float* out) {
  double sum = 0;
  ForEachBlock(row, begin, end, [&](int64_t at, int n, const Block& block) {
    for (int i = 0; i < n; ++i) out[at - begin + i] = block.weight[i];
    sum += SumOf(block.weight, n);
    return true;
  });
  return sum;
}

void Multiply(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

void PositiveDifference(const float* a, const float* b, int64_t count, float* out) {
  const F32 zero = F32::Set(0.0f);
  for (int64_t i = 0; i < count; i += kWidth) {
    const int n = count - i < kWidth ? static_cast<int>(count - i) : kWidth;
    const F32 difference = Load(a + i, n) - Load(b + i, n);
    Store(out + i, SelectLess(difference, zero, zero, difference), n);
  }
}

}  // namespace

const VocabularyKernelTable& VocabularyKernels() {
  static constexpr VocabularyKernelTable kTable{
      kWidth,   FindExtremes, Count,  Weigh,   Locate, Weight,     Exponentiate,
      Multiply, Keep,         Coarse, Collect, List,   KthLargest, PositiveDifference};
  return kTable;
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
