// SPDX-License-Identifier: Apache-2.0
// Rows of a vocabulary block by block: values, weights, and sums of them.
#pragma once

#include "backends/cpu/sampling.h"
#include "backends/cpu/simd/simd.h"

namespace flashinfer::cpu::FLASHINFER_ISA {

inline constexpr int kWidth = F32::kWidth;
inline constexpr int kBlock = kVocabularyBlock;
inline constexpr float kInfinity = __builtin_inff();

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
inline void LoadBlock(const VocabularyRow& row, int64_t begin, int n, Block& block) {
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

// Of backends/cpu/vocabulary_filters_simd.cc; VocabularyKernelTable says what they do.
void Count(const VocabularyRow& row, int64_t begin, int64_t end, const KeyBits& bits,
           Histogram& histogram);
CoarseMass Coarse(const VocabularyRow& row, int64_t begin, int64_t end, const float* limits);
int64_t Collect(const VocabularyRow& row, int64_t begin, int64_t end, float low, float high,
                float* values);
void Keep(const VocabularyRow& row, int64_t begin, int64_t end, const Cut& cut,
          const KeepOutput& output);

// Of backends/cpu/leading_tokens_simd.cc.
float KthLargest(const float* values, int64_t count, int64_t k);
int64_t List(const VocabularyRow& row, int64_t begin, int64_t end, const ListBound& bound,
             const ListedTokens& tokens);

}  // namespace flashinfer::cpu::FLASHINFER_ISA
