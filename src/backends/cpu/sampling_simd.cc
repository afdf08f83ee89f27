// SPDX-License-Identifier: Apache-2.0
// Pieces of vocabulary rows: extremes, histograms of order keys, kept weight, the drawn token.
#include "backends/cpu/sampling.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {
namespace {

constexpr int kWidth = F32::kWidth;
constexpr int kBlock = 256;
constexpr float kInfinity = __builtin_inff();

/// Values and weights of `n` tokens of a row; the weights after them in the last vector are 0.
struct Block {
  alignas(64) float value[kBlock];
  alignas(64) float weight[kBlock];
};

/// -0 becomes 0, so that equal probabilities have equal keys.
inline F32 Canonical(const VocabularyRow& row, F32 x) {
  const F32 zero = F32::Set(0.0f);
  if (row.is_uniform) return SelectLess(x, F32::Set(-__FLT_MAX__), x, zero);
  return x + zero;
}

inline F32 WeightOf(const VocabularyRow& row, F32 value) {
  if (!row.are_logits) return value;
  return Exp2((value - F32::Set(row.max)) * F32::Set(row.scale));
}

template <class T>
void LoadBlock(const VocabularyRow& row, int64_t begin, int n, Block& block) {
  const T* p = static_cast<const T*>(row.data) + begin;
  for (int i = 0; i < n; i += kWidth) {
    const int lanes = n - i < kWidth ? n - i : kWidth;
    const F32 value = Canonical(row, Load(p + i, lanes));
    Store(block.value + i, value);
    Store(block.weight + i, SelectFirst(lanes, WeightOf(row, value), F32::Set(0.0f)));
  }
}

/// Calls `body(begin, n, block)` for the blocks of a piece until it returns false.
template <class Body>
inline void ForEachBlock(const VocabularyRow& row, int64_t begin, int64_t end, Body&& body) {
  Block block;
  for (int64_t at = begin; at < end; at += kBlock) {
    const int n = end - at < kBlock ? static_cast<int>(end - at) : kBlock;
    if (row.dtype == DType::kF32) {
      LoadBlock<float>(row, at, n, block);
    } else if (row.dtype == DType::kF16) {
      LoadBlock<F16>(row, at, n, block);
    } else {
      LoadBlock<BF16>(row, at, n, block);
    }
    if (!body(at, n, block)) return;
  }
}

inline double SumOf(const float* x, int n) {
  double sums[8] = {};
  for (int i = 0; i < n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(x[i + lane]);
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

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
Extremes ExtremesOf(const T* x, int64_t begin, int64_t end) {
  Extremes result{-kInfinity, kInfinity, begin, false};
  F32 nan = F32::Set(0.0f);
  F32 min = F32::Set(kInfinity);
  int64_t best = -1;  // the block with the first largest value
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t stop = end - at < kBlock ? end : at + kBlock;
    F32 max = F32::Set(-kInfinity);
    for (int64_t i = at; i < stop; i += kWidth) {
      const int lanes = stop - i < kWidth ? static_cast<int>(stop - i) : kWidth;
      const F32 value = Load(x + i, lanes);
      nan = SelectNan(value, nan);
      max = Max(SelectFirst(lanes, value, F32::Set(-kInfinity)), max);
      min = Min(SelectFirst(lanes, value, F32::Set(kInfinity)), min);
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

Extremes FindExtremes(const VocabularyRow& row, int64_t begin, int64_t end) {
  if (row.dtype == DType::kF32) {
    return ExtremesOf(static_cast<const float*>(row.data), begin, end);
  }
  if (row.dtype == DType::kF16) return ExtremesOf(static_cast<const F16*>(row.data), begin, end);
  return ExtremesOf(static_cast<const BF16*>(row.data), begin, end);
}

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

void Keep(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
          const KeepOutput& output) {
  if (output.dtype == DType::kF32) return KeepAs<float>(row, begin, end, cut, output);
  if (output.dtype == DType::kF16) return KeepAs<F16>(row, begin, end, cut, output);
  KeepAs<BF16>(row, begin, end, cut, output);
}

int64_t List(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
             const KeptTokens& tokens) {
  int64_t count = 0;
  int64_t skip = tokens.skip_ties;
  int64_t ties_left = cut.num_ties;
  ForEachBlock(row, begin, end, [&](int64_t at, int n, const Block& block) {
    F32 max = F32::Set(-kInfinity);
    for (int i = 0; i < n; i += kWidth) max = Max(Load(block.value + i), max);
    if (MaxLane(max) < cut.value) return true;
    for (int i = 0; i < n; ++i) {
      const float value = block.value[i];
      if (value < cut.value) continue;
      if (value == cut.value) {
        if (skip > 0) {
          --skip;
          continue;
        }
        if (ties_left == 0) continue;
        --ties_left;
      }
      tokens.values[count] = value;
      tokens.indices[count++] = static_cast<int32_t>(at + i);
    }
    return true;
  });
  return count;
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
      FindExtremes, Count, Weigh,  Locate,  Weight, Exponentiate,
      Multiply,     Keep,  Coarse, Collect, List,   PositiveDifference};
  return kTable;
}

}  // namespace flashinfer::cpu::FLASHINFER_ISA
